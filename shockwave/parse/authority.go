package parse

// An authority is the host and port of a Host field or a target (RFC 3986 section 3.2).
type authority struct {
	host []byte
	// port is -1 where none is given; an empty one is none.
	port int
}

// isPlainHost reports whether the bytes of a value from start to end are letters, digits, hyphens and dots, as
// those of nearly every host are: then they are an authority. Eight bytes precede end, for a field line
// comes behind a request line.
func isPlainHost(t text, start, end uint) bool {
	for ; start+8 < end; start += 8 {
		if !arePlain(t.load8(start)) {
			return false
		}
	}
	if start >= end {
		return false
	}
	// The last word holds what is left in its upper bytes; zeros take the place of the others.
	before := 8 * (8 - (end - start))
	return arePlain(t.load8(end-8)>>before<<before | zeros>>1>>(63-before))
}

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
	zeros = '0' * ones
)

// arePlain reports whether all eight bytes are letters, digits, hyphens and dots. They are bytes of a field
// value, so that setting the bit between the cases makes nothing else equal to one of those.
func arePlain(word uint64) bool {
	word |= fold8
	return (within(word, 'a', 'z')|within(word, '0', '9')|within(word, '-', '.'))&highs == highs
}

// within sets the high bits of the bytes from low to high. Those over 0x7f are not among them: what is
// added for high leaves their high bits set, or else both sums overflow. An overflow may change the next
// byte, but then this one is none of those sought already.
func within(word, low, high uint64) uint64 {
	return (word + (0x80-low)*ones) &^ (word + (0x7f-high)*ones)
}

// splitAuthority takes an authority apart; user information is none of HTTP (RFC 9110 section 4.2.4).
func splitAuthority(text []byte) (authority, bool) {
	end, ok := hostEnd(text)
	if !ok {
		return authority{}, false
	}
	port, ok := readPort(text[end:])
	return authority{text[:end], port}, ok
}

func hostEnd(text []byte) (int, bool) {
	if len(text) == 0 || text[0] == ':' {
		return 0, false
	}
	if text[0] == '[' {
		end := indexByte(text, ']')
		return end + 1, end > 0 && isIPv6(text[1:end])
	}
	return nameEnd(text)
}

func nameEnd(text []byte) (int, bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case classes[c]&hostByte != 0:
		case c == '%' && len(text) > i+2 && all(text[i+1:i+3], hexByte):
			i += 2
		default:
			return i, c == ':'
		}
	}
	return len(text), true
}

// readPort reads ":" and at most five digits; both may be missing.
func readPort(text []byte) (port int, ok bool) {
	if len(text) == 0 {
		return -1, true
	}
	digits := text[1:]
	if text[0] != ':' || len(digits) > 5 {
		return 0, false
	}
	if len(digits) == 0 {
		return -1, true
	}
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false
		}
		port = port*10 + int(c-'0')
	}
	return port, port <= 65535
}

// same compares the hosts without regard to case and the ports as numbers. A default port is not filled
// in: the scheme in the target is the client's word alone.
func (a authority) same(other authority) bool {
	n := len(a.host)
	return a.port == other.port && n == len(other.host) && sameFold(textOf(a.host), textOf(other.host), uint(n))
}

// isIPv6 reports whether text is an IPv6 address without zone (RFC 3986 section 3.2.2, IPv6address).
func isIPv6(text []byte) bool {
	groups, elided := 0, false
	if len(text) >= 2 && text[0] == ':' && text[1] == ':' {
		elided, text = true, text[2:]
	}
	for len(text) > 0 {
		n := 0
		for n < len(text) && n < 4 && classes[text[n]]&hexByte != 0 {
			n++
		}
		if n < len(text) && text[n] == '.' {
			groups += 2
			return isIPv4(text) && (groups == 8) != elided && groups <= 8
		}
		groups++
		if n == 0 || groups > 8 {
			return false
		}
		text = text[n:]
		if len(text) == 0 {
			break
		}
		if text[0] != ':' || len(text) == 1 {
			return false
		}
		text = text[1:]
		if text[0] == ':' {
			if elided {
				return false
			}
			elided, text = true, text[1:]
		}
	}
	return groups == 8 && !elided || elided && groups < 8
}

// isIPv4 reports whether text is four numbers up to 255 without leading zeros.
func isIPv4(text []byte) bool {
	for part := range 4 {
		if part > 0 {
			if len(text) == 0 || text[0] != '.' {
				return false
			}
			text = text[1:]
		}
		n, value := 0, 0
		for n < len(text) && n < 3 && text[n]-'0' <= 9 {
			value = value*10 + int(text[n]-'0')
			n++
		}
		if n == 0 || value > 255 || n > 1 && text[0] == '0' {
			return false
		}
		text = text[n:]
	}
	return len(text) == 0
}
