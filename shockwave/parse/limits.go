package parse

import "math"

// The defaults of the fields of Limits.
const (
	DefaultHead     = 16 << 10
	DefaultTarget   = 8 << 10
	DefaultFields   = 100
	DefaultTrailers = 4 << 10
	DefaultBody     = 1 << 20
)

// MaxMethod is the length of the longest accepted method; a longer one is
// ErrMethodTooLong.
const MaxMethod = 23

// maxHead keeps every offset within 32 bits, with room for a limit's worth of bytes behind it.
const maxHead = 1 << 30

// Limits are the bounds of one message. The zero value of a member stands for its default.
type Limits struct {
	// Head is the bytes of a head: request line, field lines and every CRLF with the final one, but not
	// an empty line before it. Default 16384; beyond it ErrHeadTooLong. At most 1 GiB.
	Head int
	// Target is the bytes of the request target as received. Default 8192; beyond it ErrTargetTooLong.
	Target int
	// Fields is the field lines of a head, and those of a trailer section. Default 100; beyond it
	// ErrTooManyFields. At most 65535.
	Fields int
	// Trailers is the bytes of a trailer section with its final empty line. Default 4096; beyond it
	// ErrTrailersTooLong.
	Trailers int
	// Body is the largest Content-Length, in bytes. Default 1 MiB; beyond it ErrBodyTooLong. A negative
	// value admits no body at all; math.MaxInt64 admits every body.
	Body int64
}

func (l Limits) withDefaults() Limits {
	l.Head = min(orDefault(l.Head, DefaultHead), maxHead)
	l.Target = min(orDefault(l.Target, DefaultTarget), maxHead)
	l.Fields = min(orDefault(l.Fields, DefaultFields), math.MaxUint16)
	l.Trailers = min(orDefault(l.Trailers, DefaultTrailers), maxHead)
	if l.Body == 0 {
		l.Body = DefaultBody
	}
	l.Body = max(l.Body, 0)
	return l
}

func orDefault(limit, fallback int) int {
	if limit <= 0 {
		return fallback
	}
	return limit
}
