package parse

// A section is where reading stands in a section of field lines, or in a request line.
type section struct {
	line  int  // where the unfinished part begins: method, target, version, field line
	from  int  // the first byte that was not looked at
	colon int  // of the unfinished field line, 0 before it is found
	last  line // the field line found last
}

func (s *section) move(by int) {
	s.line += by
	s.from += by
	if s.colon != 0 {
		s.colon += by
	}
}

// What next found.
const (
	unfinished = iota
	fieldLine
	sectionEnd
)

// next reads one line of field syntax (RFC 9112 section 5), or the empty line that ends the section.
func (s *section) next(b []byte) (found int, fault *Error) {
	if s.colon == 0 {
		s.from = run(b, s.from, tokenByte)
		switch {
		case s.from == len(b):
			return unfinished, nil
		case s.from == s.line && b[s.from] == '\r':
			return s.end(b)
		case b[s.from] != ':' || s.from == s.line:
			return 0, nameFault(b[s.from], s.from == s.line)
		}
		s.colon = s.from
		s.from++
	}
	s.from = run(b, s.from, valueByte)
	if done, fault := lineEnds(b, s.from, ErrValueByte); !done {
		return unfinished, fault
	}
	s.last = line{uint32(s.colon), uint32(s.from)}
	s.from += 2
	s.line, s.colon = s.from, 0
	return fieldLine, nil
}

func (s *section) end(b []byte) (found int, fault *Error) {
	if done, fault := lineEnds(b, s.from, ErrBareCR); !done {
		return unfinished, fault
	}
	s.from += 2
	s.line = s.from
	return sectionEnd, nil
}

// run returns the end of the bytes of a class that begin at i.
func run(b []byte, i int, class uint8) int {
	for i < len(b) && classes[b[i]]&class != 0 {
		i++
	}
	return i
}

// lineEnds reports whether CRLF stands at b[i]; false without a fault when that cannot be told yet. Any
// other byte is a fault, and otherwise names it when it is no half of a line end.
func lineEnds(b []byte, i int, otherwise *Error) (bool, *Error) {
	switch rest := b[i:]; {
	case len(rest) == 0 || len(rest) == 1 && rest[0] == '\r':
		return false, nil
	case rest[0] == '\r' && rest[1] == '\n':
		return true, nil
	case rest[0] == '\r':
		return false, ErrBareCR
	case rest[0] == '\n':
		return false, ErrBareLF
	}
	return false, otherwise
}

// nameFault names what is wrong with a line that has c where its colon belongs.
func nameFault(c byte, first bool) *Error {
	switch {
	case isSpace(c) && first:
		return ErrObsFold
	case isSpace(c):
		return ErrSpaceBeforeColon
	case c == ':':
		return ErrEmptyFieldName
	case c == '\n':
		return ErrBareLF
	}
	return ErrFieldNameByte
}
