package parse

import "bytes"

// A TargetForm is one of the four forms of a request target (RFC 9112 section 3.2).
type TargetForm uint8

// The forms.
const (
	// Origin is a path with an optional query: "/where?q=now".
	Origin TargetForm = iota
	// Absolute is a whole http or https URI.
	Absolute
	// Connect is the host and port of a CONNECT request; RFC 9112 calls it authority-form.
	Connect
	// Asterisk asks about the server as a whole: OPTIONS with "*", or with a URI that is no more than an
	// authority (RFC 9112 section 3.2.4).
	Asterisk
)

func indexByte(b []byte, c byte) int { return bytes.IndexByte(b, c) }

// readTarget takes the target apart, whose bytes have been checked.
func (h *Head) readTarget(b []byte) *Error {
	target := h.target.of(b)
	h.path = h.target.end
	switch {
	case h.method == MethodConnect:
		return h.readConnect(target)
	case target[0] == '/':
		h.form = Origin
		h.path = h.target.start
		return nil
	case len(target) == 1 && target[0] == '*' && h.method == MethodOptions:
		h.form = Asterisk
		return nil
	}
	return h.readAbsolute(target)
}

func (h *Head) readConnect(target []byte) *Error {
	a, ok := splitAuthority(target)
	if !ok || a.port < 0 {
		return ErrTargetAuthority
	}
	h.form = Connect
	h.authority = h.target
	return nil
}

func (h *Head) readAbsolute(target []byte) *Error {
	scheme := schemeLen(target)
	if scheme == 0 {
		return ErrTargetForm
	}
	rest := target[scheme:]
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if _, ok := splitAuthority(rest[:end]); !ok {
		return ErrTargetAuthority
	}
	h.authority.start = h.target.start + uint32(scheme)
	h.authority.end = h.authority.start + uint32(end)
	h.path = h.authority.end
	h.form = Absolute
	// The path has to show that nothing but the server is meant, or a route for "/"
	// would match "*".
	if h.method == MethodOptions && end == len(rest) {
		h.form = Asterisk
	}
	return nil
}

// schemeLen returns the length of the scheme with its "://", 0 when it is none that is served.
func schemeLen(target []byte) int {
	for _, scheme := range [...]string{"http://", "https://"} {
		if len(target) >= len(scheme) && equalFold(target[:len(scheme)], scheme) {
			return len(scheme)
		}
	}
	return 0
}
