package parse

// Trailers reads trailer sections (RFC 9112 section 7.1.2) and then is the fields of the last one. It is
// to be initialised with Init, used by one goroutine, and not copied.
type Trailers struct {
	Fields
	section
	limits Limits
	begin  int
	begun  bool
}

// Init sets the limits, of which Trailers and Fields count, and forgets everything else. Memory for
// fields is first taken when some arrive.
func (t *Trailers) Init(limits Limits) {
	t.limits = limits.withDefaults()
	t.Reset()
}

// Reset forgets the fields and the unfinished section.
func (t *Trailers) Reset() {
	t.b, t.lines, t.indexed, t.begun = nil, t.lines[:0], false, false
}

// Parse reads the section that begins at b[at], behind the last chunk's line, and returns where it ends
// in b. Until then it returns ErrIncomplete and is to be called again as Parser.Parse is. Fields that
// may only stand in a head are ErrTrailerForbidden.
func (t *Trailers) Parse(b []byte, at int) (next int, err error) {
	if !t.begun {
		t.begun, t.begin = true, at
		t.section = section{line: at, from: at}
		t.lines, t.indexed = append(t.lines[:0], line{end: uint32(at - 2)}), false
	} else if at != t.begin {
		t.section.move(at - t.begin)
		t.Fields.move(at - t.begin)
		t.begin = at
	}
	t.b = b
	size := min(len(b)-at, t.limits.Trailers)
	end, fault := t.read(b[:at+size])
	switch {
	case fault != nil:
		return 0, fault
	case end == 0 && at+size < len(b):
		return 0, ErrTrailersTooLong
	case end == 0:
		return 0, ErrIncomplete
	}
	t.begun = false
	return end, nil
}

func (t *Trailers) read(b []byte) (int, *Error) {
	for {
		found, fault := t.next(b)
		switch {
		case fault != nil || found == unfinished:
			return 0, fault
		case found == sectionEnd:
			return t.line, nil
		case t.Len() == t.limits.Fields:
			return 0, ErrTooManyFields
		}
		t.lines = append(t.lines, t.last)
		if forbiddenInTrailers(t.Name(t.Len() - 1)) {
			return 0, ErrTrailerForbidden
		}
	}
}

// forbiddenInTrailers reports whether a field may only stand in a head: those that frame, route, authorise,
// modify the request or describe the content (RFC 9110 section 6.5.1).
func forbiddenInTrailers(name []byte) bool {
	if len(name) >= 3 && equalFold(name[:3], "If-") {
		return true
	}
	for _, forbidden := range notInTrailers {
		if equalFold(name, forbidden) {
			return true
		}
	}
	return false
}

var notInTrailers = [...]string{
	"Transfer-Encoding", "Content-Length", "Host", "Connection", "Trailer", "TE", "Upgrade",
	"Authorization", "Proxy-Authorization", "Proxy-Authenticate", "WWW-Authenticate", "Cookie",
	"Set-Cookie", "Content-Encoding", "Content-Type", "Content-Range", "Cache-Control", "Expect",
	"Range", "Max-Forwards", "Pragma", "Age", "Date", "Location", "Retry-After", "Vary", "Warning",
	"Keep-Alive", "Proxy-Connection",
}
