package parse

import "encoding/binary"

// Classes of bytes, as bits of the entries of classes.
const (
	tokenByte  = 1 << iota // RFC 9110 section 5.6.2
	valueByte              // HTAB, SP, visible ASCII, 0x80 to 0xff: RFC 9110 section 5.5
	targetByte             // visible ASCII without '#': RFC 9112 section 3.2
	hostByte               // of a registered name, without '%': RFC 3986 section 3.2.2
	hexByte
)

var classes = classTable()

func classTable() (table [256]uint8) {
	for c := range table {
		if c == '\t' || c >= ' ' && c != 0x7f {
			table[c] |= valueByte
		}
		if c > ' ' && c < 0x7f && c != '#' {
			table[c] |= targetByte
		}
	}
	letters := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	mark(&table, tokenByte, letters+"!#$%&'*+-.^_`|~")
	mark(&table, hostByte, letters+"-._~!$&'()*+;=")
	mark(&table, hexByte, "0123456789abcdefABCDEF")
	return table
}

func mark(table *[256]uint8, class uint8, members string) {
	for i := range len(members) {
		table[members[i]] |= class
	}
}

// ValidName reports whether name is a field name that may be sent: a token (RFC
// 9110 section 5.1).
func ValidName(name string) bool {
	return name != "" && all(name, tokenByte)
}

// ValidValue reports whether value is a field value that may be sent (RFC 9110
// section 5.5): no CR, LF or NUL, and no other control byte but HTAB. Recipients
// drop white space at its ends.
func ValidValue(value string) bool {
	for ; len(value) >= 8; value = value[8:] {
		// A control byte is one below SP, or DEL; whether one of the eight is HTAB is then looked at.
		word := binary.LittleEndian.Uint64([]byte(value[:8]))
		del := word ^ 0x7f*ones
		control := (word-' '*ones)&^word | (del-ones)&^del
		if control&highs != 0 && !all(value[:8], valueByte) {
			return false
		}
	}
	return all(value, valueByte)
}

func all[T string | []byte](text T, class uint8) bool {
	for i := range len(text) {
		if classes[text[i]]&class == 0 {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// lower folds the letters of ASCII and leaves every other byte.
func lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}

// equalFold compares without regard to the case of ASCII letters, and of those alone: strings.EqualFold
// would take the Kelvin sign for a K.
func equalFold(a []byte, b string) bool {
	return len(a) == len(b) && sameFold(textOf(a), textOfString(b), uint(len(a)))
}

// sameFold compares n bytes. Words that are the same, or no more than a case apart, are what it mostly
// meets.
func sameFold(a, b text, n uint) bool {
	i := uint(0)
	for ; i+8 <= n; i += 8 {
		differ := a.load8(i) ^ b.load8(i)
		if differ&^fold8 != 0 || differ != 0 && !sameFoldBytes(a, b, i, i+8) {
			return false
		}
	}
	return sameFoldBytes(a, b, i, n)
}

func sameFoldBytes(a, b text, i, end uint) bool {
	for ; i < end; i++ {
		if x, y := a.at(i), b.at(i); x != y && lower(x) != lower(y) {
			return false
		}
	}
	return true
}

// trimmed returns value without SP and HTAB at its ends.
func trimmed(value []byte) []byte {
	for len(value) > 0 && isSpace(value[0]) {
		value = value[1:]
	}
	for len(value) > 0 && isSpace(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	return value
}

// member cuts the first member off a comma-separated list; it is trimmed and may be empty. An empty list
// has one empty member.
func member(list []byte) (first, rest []byte, more bool) {
	for i, c := range list {
		if c == ',' {
			return trimmed(list[:i]), list[i+1:], true
		}
	}
	return trimmed(list), nil, false
}
