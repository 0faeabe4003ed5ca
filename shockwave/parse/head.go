package parse

// A Head is a complete head of a request. Its slices alias the buffer that was parsed; they are valid
// until the owner of the buffer changes those bytes, the Head itself until the next call of its Parser.
type Head struct {
	Fields

	// ContentLength is the length that Content-Length declares, in bytes, and -1 without that field.
	ContentLength int64
	// Chunked reports whether the body has the chunked coding (RFC 9112 section 7.1).
	Chunked bool
	// KeepAlive reports whether the connection may serve another request after this one (RFC 9112 section 9.3).
	// It is false for CONNECT.
	KeepAlive bool
	// ExpectContinue reports whether the client waits for 100 (Continue) before it sends the body that is to
	// come (RFC 9110 section 10.1.1).
	ExpectContinue bool
	// Upgrade reports whether the client would change the protocol: Connection lists upgrade, there is an
	// Upgrade field, and the version is not HTTP/1.0 (RFC 9110 section 7.8).
	Upgrade bool

	method Method
	form   TargetForm
	minor  uint8

	start     uint32
	target    span
	authority span
	path      uint32
	host      span
}

// A span is a part of the buffer.
type span struct{ start, end uint32 }

// move follows the bytes; a span that ends at 0 stands for nothing and stays.
func (s *span) move(by int) {
	if s.end != 0 {
		s.start += uint32(by)
		s.end += uint32(by)
	}
}

func (s span) of(b []byte) []byte { return b[s.start:s.end] }

func (s span) trimmed(b []byte) span {
	for s.start < s.end && isSpace(b[s.start]) {
		s.start++
	}
	for s.start < s.end && isSpace(b[s.end-1]) {
		s.end--
	}
	return s
}

// HasBody reports whether at least one byte follows that belongs to this request: a Content-Length over zero,
// or chunks.
func (h *Head) HasBody() bool { return h.Chunked || h.ContentLength > 0 }

// Minor returns the minor version, 0 to 9. Those over 1 are served as 1.
func (h *Head) Minor() int { return int(h.minor) }

// IsHTTP10 reports whether the version is HTTP/1.0.
func (h *Head) IsHTTP10() bool { return h.minor == 0 }

// MethodID returns the method's id, MethodOther when it is none of the well-known.
func (h *Head) MethodID() Method { return h.method }

// Method returns the method. It allocates for one that is not well-known.
func (h *Head) Method() string {
	if h.method != MethodOther {
		return h.method.String()
	}
	return string(h.MethodBytes())
}

// MethodBytes returns the method as received.
func (h *Head) MethodBytes() []byte { return h.b[h.start : h.target.start-1] }

// Host returns the value of Host, nil without that field.
func (h *Head) Host() []byte {
	if h.host.end == 0 {
		return nil
	}
	return h.host.of(h.b)
}

// Target returns the request target as received.
func (h *Head) Target() []byte { return h.target.of(h.b) }

// Form returns the form of the request target.
func (h *Head) Form() TargetForm { return h.form }

// Authority returns the authority in the target: that of an absolute-form target, which agrees with Host
// but for the case of its letters, or the whole target of CONNECT. It is empty in the other forms.
func (h *Head) Authority() []byte { return h.authority.of(h.b) }

// Path returns the path as received: still percent-encoded, with its dot segments. It is "*" when the
// request asks about the server as a whole, "/" where an absolute-form target has no path, and "" for
// CONNECT.
func (h *Head) Path() []byte {
	switch h.form {
	case Asterisk:
		return asterisk
	case Connect:
		return nil
	}
	rest := h.b[h.path:h.target.end]
	if i := indexByte(rest, '?'); i >= 0 {
		rest = rest[:i]
	}
	if len(rest) == 0 {
		return slash
	}
	return rest
}

// RawQuery returns what follows the first '?' of the target, as received; nil without one.
func (h *Head) RawQuery() []byte {
	rest := h.b[h.path:h.target.end]
	if i := indexByte(rest, '?'); i >= 0 {
		return rest[i+1:]
	}
	return nil
}

var (
	asterisk = []byte("*")
	slash    = []byte("/")
)
