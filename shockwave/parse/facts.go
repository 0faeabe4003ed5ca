package parse

// facts is what the field lines say about the message and its connection, gathered line by line. The
// first fault is held back until the head is complete, so that limits and malformed lines come first.
type facts struct {
	fault  *Error
	length int64 // of Content-Length, -1 without one
	coding coding
	seen   seen
}

// seen is what occurred in the field lines.
type seen uint8

const (
	sawHost seen = 1 << iota
	sawLength
	sawKeepAlive
	sawClose
	sawUpgrade // as a member of Connection
	sawContinue
	sawOtherExpectation
)

func (s seen) has(fact seen) bool { return s&fact != 0 }

// A coding is the list of transfer codings so far.
type coding uint8

const (
	noCoding coding = iota
	chunkedCoding
	otherCoding
	otherThenChunked
)

// heeded has, for each length of a name modulo its own, the first letter of a field that learn heeds.
var heeded = [32]byte{4: 'h', 6: 'e', 10: 'c', 14: 'c', 17: 't'}

// learn takes in line i when it is of those that say where the message ends or what becomes of its
// connection. All loads of names stay within the name.
func (p *Parser) learn(t text, i uint) {
	start := uint(p.head.lines[i-1].end) + 2
	colon, end := uint(p.head.lines[i].colon), uint(p.head.lines[i].end)
	switch colon - start {
	case 4:
		if t.load4(start)|fold4 == host4 {
			p.learnHost(t, colon+1, end)
		}
	case 6:
		if t.load4(start)|fold4 == expe && t.load2(start+4)|fold2 == ct {
			p.facts.expect(p.value(colon, end))
		}
	case 10:
		if t.load8(start)|fold8 == connecti && t.load2(start+8)|fold2 == on {
			p.facts.connection(p.value(colon, end))
		}
	case 14:
		if t.load8(start)|fold8 == content_ && t.load8(start+6)|fold8 == t_length {
			p.facts.contentLength(p.value(colon, end))
		}
	case 17:
		if t.load8(start)|fold8 == transfer && t.load8(start+8)|fold8 == _encodin && t.at(start+16)|0x20 == 'g' {
			p.facts.transferEncoding(p.value(colon, end))
		}
	}
}

// value returns the bytes between colon and end without white space around them.
func (p *Parser) value(colon, end uint) []byte {
	return trimmed(p.head.b[colon+1 : end])
}

func (p *Parser) learnHost(t text, start, end uint) {
	if t.at(start) == ' ' { // start may be end: that is the CR
		start++
	}
	h, f := &p.head, &p.facts
	at := span{uint32(start), uint32(end)}
	if f.seen.has(sawHost) || !isPlainHost(t, start, end) {
		at = at.trimmed(h.b)
		f.host(at.of(h.b))
	}
	f.seen |= sawHost
	h.host = at
}

func (f *facts) note(fault *Error) {
	if f.fault == nil {
		f.fault = fault
	}
}

func (f *facts) host(value []byte) {
	if f.seen.has(sawHost) {
		f.note(ErrSecondHost)
	} else if _, ok := splitAuthority(value); !ok {
		f.note(ErrHostMalformed)
	}
}

func (f *facts) expect(value []byte) {
	if equalFold(value, "100-continue") {
		f.seen |= sawContinue
	} else {
		f.seen |= sawOtherExpectation
	}
}

func (f *facts) contentLength(value []byte) {
	length, ok := decimal(value)
	switch {
	case f.seen.has(sawLength):
		f.note(ErrDuplicateContentLength)
	case !ok:
		f.note(ErrContentLength)
	}
	f.seen |= sawLength
	f.length = length
}

// transferEncoding goes on with the list: several lines are one (RFC 9110 section 5.3).
func (f *facts) transferEncoding(list []byte) {
	for more := true; more; {
		var name []byte
		name, list, more = member(list)
		if len(name) == 0 || !all(name, tokenByte) {
			// Parameters are refused too: no registered coding has any, and they are how a coding is
			// hidden from one of two parsers.
			f.note(ErrCodingMalformed)
			continue
		}
		f.code(equalFold(name, "chunked"))
	}
}

func (f *facts) code(chunked bool) {
	switch {
	case f.coding == noCoding && chunked:
		f.coding = chunkedCoding
	case f.coding == otherCoding && chunked:
		f.coding = otherThenChunked
	case f.coding == noCoding || f.coding == otherCoding:
		f.coding = otherCoding
	case chunked:
		f.note(ErrChunkedTwice)
	default:
		f.note(ErrChunkedNotLast)
	}
}

func (f *facts) connection(list []byte) {
	t := textOf(list)
	if len(list) == len("keep-alive") && t.load8(0)|fold8 == keep_ali && t.load2(8)|fold2 == ve {
		f.seen |= sawKeepAlive
		return
	}
	for more := true; more; {
		var option []byte
		option, list, more = member(list)
		switch {
		case !all(option, tokenByte):
			f.note(ErrConnectionOption)
		case equalFold(option, "close"):
			f.seen |= sawClose
		case equalFold(option, "keep-alive"):
			f.seen |= sawKeepAlive
		case equalFold(option, "upgrade"):
			f.seen |= sawUpgrade
		}
	}
}
