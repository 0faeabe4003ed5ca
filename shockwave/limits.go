package shockwave

import (
	"math"
	"time"

	"titan.test/shockwave/parse"
)

// Limits bounds what one client can make long. A member that is zero has the
// default named at it, and so has a negative one if it names no other meaning.
type Limits struct {
	// Head is the most bytes of a request head: request line, field lines and
	// the empty line. Passed: 431. Default 16384.
	Head int
	// Target is the most bytes of a request target. Passed: 414. Default 8192.
	Target int
	// Fields is the most field lines of a head, and of a trailer section.
	// Passed: 431. Default 100.
	Fields int
	// Body is the most bytes of a request body, without the chunked coding.
	// Passed: 413, at the head when Content-Length announces it. Default 1 MiB;
	// negative: none at all; math.MaxInt64 leaves it to ReadBody.
	Body int64
	// ChunkLine is the most bytes of a chunk size with its extension. Passed:
	// 400. Default 256.
	ChunkLine int
	// Trailers is the most bytes of a trailer section with its empty line.
	// Passed: 431. Default 4096.
	Trailers int
	// Connections is the most connections served at once. While that many are
	// open, Serve accepts no further one: they wait in the listener's queue.
	// Default 65536.
	Connections int
	// RequestsPerConnection is the most requests of one connection; the last
	// answer says Connection: close. Default: no limit.
	RequestsPerConnection int
	// Drain is the most bytes of a body its handler left unread that are read
	// away to keep the connection, those of the chunked coding too; past them it
	// is closed. Default 256 KiB; negative: none.
	Drain int64
	// Linger is the most bytes read away after a response that ends the
	// connection, so that the client can still read it (RFC 9112 section 9.6).
	// Default 256 KiB; negative: none.
	Linger int64
	// AnswerBuffer is the most bytes of a response's body that Write keeps until the
	// handler returns: a response that fits gets a Content-Length, a longer one
	// is chunked. Default 8192.
	AnswerBuffer int
	// AnswerFields is the most bytes of the field lines of one response that the
	// handler may set. Passed: ErrFieldsTooLong. Default 64 KiB.
	AnswerFields int
}

// Timeouts bounds every wait for a client. They are kept by a coarse clock that
// looks at all connections a few times a second: a wait is ended at its timeout
// or at most half a second (half the timeout, if that is less) behind it. A
// member that is zero has the default named at it; a negative one waits for ever.
type Timeouts struct {
	// Head is from the first byte of a head to its end; also how long a new
	// connection may take to send its first byte, and for its TLS handshake.
	// Passed inside a head: 408. Default 10 s.
	Head time.Duration
	// Body is the pause between two pieces of a body that somebody waits for.
	// Passed: reading the body fails with ErrTimeout. Default 30 s.
	Body time.Duration
	// Write is the pause in which the client takes no byte of a response: on a TCP
	// connection in Linux, acknowledges none. Elsewhere it is seen only when there
	// is room for a whole write, of up to 128 KiB. Passed: the connection is closed.
	// Default 30 s.
	Write time.Duration
	// Idle is the pause between two requests. Default 75 s.
	Idle time.Duration
	// Linger is how long an ended connection is read away at most; see
	// Limits.Linger. Default 2 s.
	Linger time.Duration
	// MinBodyRate is the fewest bytes a second of a body, averaged over the
	// time somebody waited for it, once that time is over BodyGrace. Less: as
	// Body. Default 240; negative: none.
	MinBodyRate int64
	// BodyGrace is the time for which MinBodyRate is not asked. Default 5 s.
	BodyGrace time.Duration
}

func (l Limits) orDefault() Limits {
	atLeastOne(&l.Head, 16384)
	atLeastOne(&l.Target, 8192)
	atLeastOne(&l.Fields, 100)
	def(&l.Body, 1<<20)
	atLeastOne(&l.ChunkLine, 256)
	atLeastOne(&l.Trailers, 4096)
	atLeastOne(&l.Connections, 65536)
	atLeastOne(&l.RequestsPerConnection, math.MaxInt)
	def(&l.Drain, 256<<10)
	def(&l.Linger, 256<<10)
	atLeastOne(&l.AnswerBuffer, 8192)
	atLeastOne(&l.AnswerFields, 64<<10)
	l.Body = max(l.Body, -1)
	return l
}

// parser gives the limits that the head parser holds.
func (l Limits) parser() parse.Limits {
	return parse.Limits{Head: l.Head, Target: l.Target, Fields: l.Fields, Trailers: l.Trailers, Body: l.Body}
}

func (t Timeouts) orDefault() Timeouts {
	def(&t.Head, 10*time.Second)
	def(&t.Body, 30*time.Second)
	def(&t.Write, 30*time.Second)
	def(&t.Idle, 75*time.Second)
	def(&t.Linger, 2*time.Second)
	def(&t.MinBodyRate, 240)
	def(&t.BodyGrace, 5*time.Second)
	return t
}

// atLeastOne is def where a negative value means nothing.
func atLeastOne(v *int, value int) {
	*v = max(*v, 0)
	def(v, value)
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
