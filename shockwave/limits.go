package shockwave

import (
	"math"
	"time"

	"titan.test/shockwave/parse"
)

// Limits bounds what one client can make long. A field that is zero has its
// default, and so has a negative one unless its documentation says otherwise.
type Limits struct {
	// Head is the maximum size of a request head in bytes: request line, field lines
	// and the empty line. Exceeded: 431. Default 16384.
	Head int
	// Target is the maximum size of a request target in bytes. Exceeded: 414.
	// Default 8192.
	Target int
	// Fields is the maximum number of field lines in a head, and in a trailer
	// section. Exceeded: 431. Default 100.
	Fields int
	// Body is the maximum size of a request body in bytes, without the chunked
	// coding. Exceeded: 413, before the body if Content-Length announces it. Default
	// 1 MiB; negative: no body at all; math.MaxInt64: only the limit of ReadBody
	// applies.
	Body int64
	// ChunkLine is the maximum size in bytes of a chunk size with its extension.
	// Exceeded: 400. Default 256.
	ChunkLine int
	// Trailers is the maximum size in bytes of a trailer section with its empty
	// line. Exceeded: 431. Default 4096.
	Trailers int
	// Connections is the maximum number of connections served at once. While that
	// many are open, Serve accepts no further ones: they wait in the listener's
	// queue. Default 65536.
	Connections int
	// RequestsPerConnection is the maximum number of requests on one connection; the
	// last response says Connection: close. Default: no limit.
	RequestsPerConnection int
	// Drain is the maximum number of bytes, including the chunked coding, that are
	// drained of a body that the handler has not read, to keep the connection.
	// Exceeded: the connection is closed. Default 256 KiB; negative: none.
	Drain int64
	// Linger is the maximum number of bytes that are drained after a response that
	// ends the connection, so that the client can still read the response (RFC 9112
	// section 9.6). Default 256 KiB; negative: none.
	Linger int64
	// ResponseBuffer is the maximum number of bytes of a response's body that Write
	// buffers until the handler returns: a response that fits gets a Content-Length,
	// a longer one is chunked. Default 8192.
	ResponseBuffer int
	// ResponseFields is the maximum size in bytes of the field lines that a handler
	// may set for one response. Exceeded: ErrFieldsTooLong. Default 64 KiB.
	ResponseFields int
}

// Timeouts bounds every wait for a client. They are kept by a coarse clock that
// looks at all connections a few times a second: a wait ends at its timeout or at
// most half a second later (half the timeout, if that is less). A field that is
// zero has its default; a negative one waits for ever.
type Timeouts struct {
	// Head is the time from the first byte of a head to its end; also the time for a
	// new connection to send its first byte, and for its TLS handshake. Exceeded
	// inside a head: 408. Default 10 s.
	Head time.Duration
	// Body is the longest pause between two pieces of a body while the handler waits
	// for it. Exceeded: reading the body fails with ErrTimeout. Default 30 s.
	Body time.Duration
	// Write is the longest pause in which the client takes no byte of a response: on
	// a TCP connection on Linux, in which it acknowledges none. Elsewhere, progress
	// is seen only when there is room for a whole write, of up to 128 KiB. Exceeded:
	// the connection is closed. Default 30 s.
	Write time.Duration
	// Idle is the longest pause between two requests. Default 75 s.
	Idle time.Duration
	// Linger is how long an ended connection is drained at most; see Limits.Linger.
	// Default 2 s.
	Linger time.Duration
	// MinBodyRate is the minimum rate of a body in bytes a second, averaged over the
	// time that the handler waited for it, once that time exceeds BodyGrace. Below
	// it: as for Body. Default 240; negative: none.
	MinBodyRate int64
	// BodyGrace is the time before MinBodyRate applies. Default 5 s.
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
	atLeastOne(&l.ResponseBuffer, 8192)
	atLeastOne(&l.ResponseFields, 64<<10)
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
