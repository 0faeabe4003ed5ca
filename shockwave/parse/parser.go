package parse

// Parse reads the head at the beginning of b with the default limits. It returns the head and the number
// of bytes it took; ErrIncomplete when b ends before the head does; or an *Error. Each call allocates:
// to read more than one head, keep a Parser.
func Parse(b []byte) (*Head, int, error) {
	var p Parser
	p.Init(Limits{})
	n, err := p.Parse(b, 0)
	if err != nil {
		return nil, 0, err
	}
	return p.Head(), n, nil
}

// A Parser reads the heads of requests, one after the other. It is to be initialised with Init, used by
// one goroutine, and not copied.
//
// No byte of an unfinished head is judged again because more have arrived: a peer that sends its head
// byte for byte costs no more than one that sends it at once.
type Parser struct {
	head   Head
	facts  facts
	limits Limits
	stage  stage
	// next is where the masks of scan hold for the bytes: where the unfinished head begins, with the
	// empty line before it, or the end of the head before when nothing but a head can follow it.
	next  int
	start int // of the request line
	section
	scan scan
}

// A stage is the part of the head that is unfinished.
type stage uint8

const (
	atBegin stage = iota
	atMethod
	atTarget
	atVersion
	atFields
)

// Init sets the limits and forgets everything else. It is the only method that allocates, but for heads
// with more field lines than any before, up to Limits.Fields.
func (p *Parser) Init(limits Limits) {
	p.limits = limits.withDefaults()
	p.head.lines = make([]line, 1, 1+min(p.limits.Fields, 64))
	p.Reset()
}

// Reset forgets the unfinished head, so that the Parser can serve another connection or buffer.
func (p *Parser) Reset() {
	p.stage = atBegin
	p.next = -1
}

// InProgress reports whether the last call of Parse returned ErrIncomplete with at least one byte of a
// request line. The empty line that may precede it does not count.
func (p *Parser) InProgress() bool {
	return p.stage > atMethod || p.stage == atMethod && p.from > p.start
}

// Head returns the head that the last call of Parse completed, valid until the next one.
func (p *Parser) Head() *Head { return &p.head }

// Parse reads the head that begins at b[at], where b holds everything received, and returns where it
// ends in b.
//
// On ErrIncomplete call it again once there is more: b[at:] must then begin with the same bytes as
// before, though b may be another array and at another offset. On an *Error response its Status and close:
// the Parser is of no use before Reset.
//
// What follows a head without a body begins the next one: when that is read from the offset returned,
// the bytes that were behind it must still be there. If others are in their place, call Reset
// first. b must be shorter than 2 GiB.
func (p *Parser) Parse(b []byte, at int) (next int, err error) {
	if at != p.next || p.scan.end > uint(len(b)) {
		p.follow(at)
	}
	h := &p.head
	h.b = b
	if p.stage == atBegin {
		if at < len(b) && b[at] != '\r' {
			p.start = at
		} else if err := p.skipEmptyLine(b, at); err != nil {
			return 0, err
		}
		p.beginHead()
	}
	// Only what is within the limit is judged: so the verdict is the same whether
	// what lies beyond has arrived already or not.
	judged := b[:p.start+min(len(b)-p.start, p.limits.Head)]
	isFresh := p.stage == atMethod && p.from == p.start
	if !isFresh || !p.walkRequestLine(judged) || !p.walkFieldLines(judged) {
		if err := p.advance(judged, len(judged) < len(b)); err != nil {
			return 0, err
		}
	}
	p.stage = atBegin
	if fault := h.decide(&p.facts, p.limits.Body); fault != nil {
		return 0, fault
	}
	p.next = p.line
	if h.HasBody() {
		// The body may pass through the buffer and leave other bytes where the masks were made.
		p.next = -1
	}
	return p.line, nil
}

// follow goes to where the head begins now. The masks are those of other places or bytes.
func (p *Parser) follow(at int) {
	if p.stage != atBegin {
		p.move(at - p.next)
	}
	p.next = at
	p.scan.end = uint(at)
}

// skipEmptyLine skips the one empty line that a client may send behind a body (RFC 9112 section 2.2).
func (p *Parser) skipEmptyLine(b []byte, at int) error {
	done, fault := lineEnds(b, at, ErrBareCR)
	if fault != nil {
		return fault
	}
	if !done {
		return ErrIncomplete
	}
	p.start = at + len("\r\n")
	return nil
}

func (p *Parser) beginHead() {
	p.line, p.from, p.colon = p.start, p.start, 0
	p.stage = atMethod
	p.facts = facts{length: -1}
	p.head.host, p.head.authority = span{}, span{}
	p.head.lines, p.head.indexed = p.head.lines[:1], false
}

// move follows the bytes of the unfinished head.
func (p *Parser) move(by int) {
	p.start += by
	p.section.move(by)
	h := &p.head
	h.start += uint32(by)
	h.path += uint32(by)
	h.target.move(by)
	h.authority.move(by)
	h.host.move(by)
	h.Fields.move(by)
}

// advance goes from stage to stage, to the end of the head if it is there; b is cut off at the limit if
// more has come.
func (p *Parser) advance(b []byte, isCut bool) error {
	ended, fault := p.carefully(b)
	switch {
	case fault != nil:
		return fault
	case ended:
		return nil
	case isCut:
		return ErrHeadTooLong
	}
	return ErrIncomplete
}

func (p *Parser) carefully(b []byte) (ended bool, fault *Error) {
	for p.stage != atFields {
		done, fault := p.requestLine(b)
		if !done {
			return false, fault
		}
		p.stage++
		p.from = p.line
	}
	return p.fieldLines(b)
}

func (p *Parser) fieldLines(b []byte) (ended bool, fault *Error) {
	h := &p.head
	for {
		found, fault := p.section.next(b)
		switch {
		case found == unfinished:
			return false, fault
		case found == sectionEnd:
			return true, nil
		case h.Len() == p.limits.Fields:
			return false, ErrTooManyFields
		}
		h.lines = append(h.lines, p.last)
		p.learn(textOf(b), uint(h.Len()))
		if p.walkFieldLines(b) {
			return true, nil
		}
	}
}
