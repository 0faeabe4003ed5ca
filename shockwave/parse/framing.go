package parse

import "math"

// decide is the one place that says where the request ends and what becomes of the connection, now that
// the head is complete: RFC 9112 section 6.3, without the repairs it allows. Of several faults those with
// status 400 come first, then 501, 417 and 413.
func (h *Head) decide(f *facts, body int64) *Error {
	h.ContentLength = f.length
	if f.isPlain() && h.form == Origin && h.minor > 0 && f.length <= body {
		h.Chunked, h.KeepAlive, h.ExpectContinue, h.Upgrade = false, true, false, false
		return nil
	}
	hasCoding, hasLength, hasHost := f.coding != noCoding, f.seen.has(sawLength), f.seen.has(sawHost)
	switch {
	case f.fault != nil:
		return f.fault
	case !hasHost && h.minor > 0:
		return ErrNoHost
	case hasHost && h.authority.end != 0 && h.form != Connect && !h.hostAgrees():
		return ErrHostDiffers
	case h.method == MethodConnect && (hasCoding || f.length > 0):
		return ErrConnectWithBody
	case hasCoding && hasLength:
		return ErrLengthAndCoding
	case hasCoding && h.minor == 0:
		return ErrCodingInHTTP10
	case f.coding > chunkedCoding:
		return ErrCodingUnknown
	case f.seen.has(sawOtherExpectation):
		return ErrExpectation
	case f.length > body:
		return ErrBodyTooLong
	}
	h.Chunked = hasCoding
	h.KeepAlive = !f.seen.has(sawClose) && (h.minor > 0 || f.seen.has(sawKeepAlive)) && h.method != MethodConnect
	h.ExpectContinue = f.seen.has(sawContinue) && h.minor > 0 && h.HasBody()
	h.Upgrade = f.seen.has(sawUpgrade) && h.minor > 0 && h.Next("Upgrade", 0) >= 0
	return nil
}

// isPlain reports whether there was a Host and nothing else that matters but Content-Length and keep-alive, as
// in nearly every request.
func (f *facts) isPlain() bool {
	return f.seen&^(sawLength|sawKeepAlive) == sawHost && f.coding == noCoding && f.fault == nil
}

func (h *Head) hostAgrees() bool {
	host, _ := splitAuthority(h.host.of(h.b))
	target, _ := splitAuthority(h.Authority())
	return host.same(target)
}

// decimal reads 1 to 19 digits, up to 2^63-1. More digits are refused even when they are zeros, for some
// parser on the way will cut them.
func decimal(text []byte) (int64, bool) {
	if len(text) == 0 || len(text) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return int64(n), n <= math.MaxInt64
}
