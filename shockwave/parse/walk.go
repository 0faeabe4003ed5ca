package parse

import "math/bits"

// The fast way through a head: from bit to bit of the masks. It takes whole lines that are in order and
// leaves the others to the careful way.

const (
	crlf  = '\r' | '\n'<<8
	get   = 'G' | 'E'<<8 | 'T'<<16 | ' '<<24
	post  = 'P' | 'O'<<8 | 'S'<<16 | 'T'<<24
	http1 = 'H' | 'T'<<8 | 'T'<<16 | 'P'<<24 | '/'<<32 | '1'<<40 | '.'<<48

	// afterTarget is the bytes of " HTTP/1.1" and the line end.
	afterTarget = 11
)

// walkRequestLine takes the request line when it is complete and in order.
func (p *Parser) walkRequestLine(b []byte) bool {
	start, size := uint(p.start), uint(len(b))
	if size-start < 8 {
		return false
	}
	p.scan.keep(start)
	if start >= p.scan.end {
		p.scan.extend(b)
	}
	h := &p.head
	t := textOf(b)
	var target uint
	switch word := t.load8(start); { // at least eight bytes are there
	case uint32(word) == get:
		h.method = MethodGet
		target = start + 4
	case uint32(word) == post && byte(word>>32) == ' ':
		h.method = MethodPost
		target = start + 5
	default:
		end := p.scan.find(b, start, tokenStop)
		if end == size || end == start || end-start > MaxMethod || b[end] != ' ' {
			return false
		}
		h.method = methodOf(b[start:end])
		target = end + 1
	}
	inBlock := p.scan.blocks[target/blockBytes%ringBlocks][targetStop] >> (target % blockBytes)
	end := target + uint(bits.TrailingZeros64(inBlock))
	if inBlock == 0 || end >= p.scan.end {
		end = p.scan.find(b, target, targetStop)
	}
	if size-end < afterTarget || end == target || end-target > uint(p.limits.Target) {
		return false
	}
	version := t.load8(end + 1) // afterTarget bytes are there, from end on
	minor := byte(version>>56) - '0'
	if t.at(end) != ' ' || version<<8 != http1<<8 || minor > 9 || t.load2(end+9) != crlf {
		return false
	}
	h.minor = minor
	h.start = uint32(start)
	h.target = span{uint32(target), uint32(end)}
	h.lines[0].end = uint32(end + 9)
	if t.at(target) == '/' && h.method != MethodConnect {
		h.form = Origin
		h.path = h.target.start
	} else if h.readTarget(b) != nil {
		return false
	}
	p.line = int(end + afterTarget)
	p.from = p.line
	p.stage = atFields
	return true
}

// walkFieldLines takes the field lines that are complete and in order, from p.line on. It reports whether
// the empty line was reached; then p.line is behind it.
func (p *Parser) walkFieldLines(b []byte) (ended bool) {
	h, s, t := &p.head, &p.scan, textOf(b)
	start := uint(p.line)
	s.keep(start)
	for {
		known := uint(len(h.lines))
		room := min(uint(cap(h.lines)), uint(p.limits.Fields)+1, known+maxWalk)
		n, next, heed := s.lines(t, start, h.lines[known:room])
		h.lines = h.lines[:known+n]
		for ; heed != 0; heed &= heed - 1 {
			p.learn(t, known+uint(bits.TrailingZeros64(heed)))
		}
		start = next
		switch {
		case start+1 < s.end && t.load2(start) == crlf:
			p.line = int(start) + len("\r\n")
			return true
		case n == maxWalk:
			continue
		case s.end >= uint(len(b)):
			p.line, p.from = int(start), int(start)
			return false
		case !s.holds(start):
			p.walkLongLine(b, start)
			return false
		}
		s.extend(b)
	}
}

// walkLongLine goes to the end of a line that is too long for the ring, where the careful way takes over.
func (p *Parser) walkLongLine(b []byte, start uint) {
	p.line, p.from = int(start), int(start)
	colon := p.scan.find(b, start, tokenStop)
	if colon > start && colon < uint(len(b)) && b[colon] == ':' {
		p.colon = int(colon)
		p.from = int(p.scan.find(b, colon, valueStop))
	}
}

// maxWalk is the most field lines that lines takes at a time: there is a bit for each in heed.
const maxWalk = 64

// lines takes the field lines from start on that are in order, all of them classified, for as many as
// there are entries in into: how many, where the next one begins, and which of them learn is to see. It
// calls nothing, so that what it works with stays in registers.
func (s *scan) lines(t text, start uint, into []line) (n, next uint, heed uint64) {
	if start >= s.end {
		return 0, start, 0
	}
	i := start / blockBytes
	values := s.blocks[i%ringBlocks][valueStop] & (none << (start % blockBytes))
	for n < uint(len(into)) {
		if values == 0 {
			i, values = s.after(i, valueStop)
		}
		end := i*blockBytes + uint(bits.TrailingZeros64(values))
		if end+1 >= s.end {
			break
		}
		// What ends a value ends a token: start <= colon <= end, and end+1 is before s.end.
		j := start / blockBytes
		tokens := s.blocks[j%ringBlocks][tokenStop] & (none << (start % blockBytes))
		if tokens == 0 {
			j, tokens = s.after(j, tokenStop)
		}
		colon := j*blockBytes + uint(bits.TrailingZeros64(tokens))
		if t.load2(end) != crlf || t.at(colon) != ':' || colon == start {
			break
		}
		into[n] = line{uint32(colon), uint32(end)}
		if t.at(start)|0x20 == heeded[(colon-start)%uint(len(heeded))] {
			heed |= 1 << (n % maxWalk)
		}
		n++
		start = end + 2
		// The CR and the LF are the two lowest stops. To drop them needs no address, so the next line does
		// not wait for this one.
		values &= values - 1
		if values == 0 {
			i++
			values = s.blocks[i%ringBlocks][valueStop]
		}
		values &= values - 1
	}
	return n, start, heed
}

// after returns the next block behind block i that has a stop, and its mask.
func (s *scan) after(i uint, stop int) (uint, uint64) {
	for {
		i++
		if mask := s.blocks[i%ringBlocks][stop]; mask != 0 {
			return i, mask
		}
	}
}
