package parse

// The careful way through a head: byte for byte, to be interrupted anywhere, with a name for every fault.
// It takes what the walk in walk.go does not: the line that is unfinished, and the one that is at fault.

// requestLine goes on in the request line. It reports whether the part that it is in is done.
func (p *Parser) requestLine(b []byte) (bool, *Error) {
	switch p.stage {
	case atMethod:
		return p.method(b)
	case atTarget:
		return p.target(b)
	}
	return p.version(b)
}

func (p *Parser) method(b []byte) (bool, *Error) {
	p.from = run(b[:min(len(b), p.start+MaxMethod+1)], p.from, tokenByte)
	if p.from-p.start > MaxMethod {
		return false, ErrMethodTooLong
	}
	if p.from == len(b) {
		return false, nil
	}
	switch c := b[p.from]; {
	case c == '\n':
		return false, ErrBareLF
	case c == '\r' && p.from == p.start:
		return false, ErrEmptyLines
	case c != ' ' || p.from == p.start:
		return false, ErrMethod
	}
	p.head.start = uint32(p.start)
	p.head.method = methodOf(b[p.start:p.from])
	p.line = p.from + 1
	return true, nil
}

func (p *Parser) target(b []byte) (bool, *Error) {
	p.from = run(b[:min(len(b), p.line+p.limits.Target+1)], p.from, targetByte)
	if p.from-p.line > p.limits.Target {
		return false, ErrTargetTooLong
	}
	if p.from == len(b) {
		return false, nil
	}
	switch c := b[p.from]; {
	case (c == ' ' || c == '\r') && p.from == p.line:
		return false, ErrNoTarget
	case c == '\n':
		return false, ErrBareLF
	case c == '\r':
		return false, ErrVersion
	case c != ' ':
		return false, ErrTargetByte
	}
	p.head.target = span{uint32(p.line), uint32(p.from)}
	p.line = p.from + 1
	return true, nil
}

// version reads the version and then judges the target: a version that is not served comes first.
func (p *Parser) version(b []byte) (bool, *Error) {
	const shape = "HTTP/0.0"
	for i := range len(shape) {
		if p.line+i == len(b) {
			return false, nil
		}
		c := b[p.line+i]
		if isDigit := c-'0' <= 9; c != shape[i] && !(shape[i] == '0' && isDigit) {
			if c == '\n' {
				return false, ErrBareLF
			}
			return false, ErrVersion
		}
	}
	end := p.line + len(shape)
	if done, fault := lineEnds(b, end, ErrVersion); !done || fault != nil {
		return false, fault
	}
	if b[p.line+5] != '1' {
		return false, ErrVersionNotServed
	}
	p.head.minor = b[p.line+7] - '0'
	p.line = end + 2
	p.head.lines[0].end = uint32(end)
	if fault := p.head.readTarget(b); fault != nil {
		return false, fault
	}
	return true, nil
}
