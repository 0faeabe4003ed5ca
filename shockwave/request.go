package shockwave

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"iter"
	"net"
	"sync"
	"time"

	"titan.test/shockwave/parse"
)

// A Ctx is one request and its response. It is valid until the handler returns,
// and so is every []byte that its methods return. Only the handler's goroutine
// may use it; after Share, others may too, in turn.
type Ctx struct {
	conn     *conn
	head     *parse.Head // the parser's
	parser   parse.Parser
	trailers parse.Trailers

	// in holds what was received: in[r:w] is not read yet, in[:base] belongs to the
	// head while the handler runs.
	in         []byte
	r, w, base int
	// held is what in was when the head was read, if the body needed another buffer; spare is that other one while it
	// is not needed.
	held, spare []byte
	untidy      bool // settle has something to do

	body    body
	whole   []byte  // what ReadBody gave
	store   *buffer // where it is, if not in in
	scratch []byte  // what was decoded

	response
	text    bytes.Buffer // what JSON and Error put together
	encoder *json.Encoder
	// out is bytes to send: this response from begin on, and before it those of a batch.
	out   []byte
	begin int

	context  context.Context
	cancel   func()
	deadline time.Time
	watch    *watch

	// readDeadline and writeDeadline are the handler's, and lock is whose turn it is;
	// see share.go.
	readDeadline, writeDeadline time.Time
	lock                        sync.Locker

	sending     bool      // what is in out, or a piece of the response, is being sent
	sendingOver sync.Cond // with lock: it no longer is
	retired     bool      // see debug_on.go
}

// frame makes ready for the handler, now that there is a head.
func (x *Ctx) frame() {
	c := x.conn
	c.requests++
	h := x.head
	x.keep = h.KeepAlive && c.requests < c.server.limits.RequestsPerConnection
	x.bodiless = h.MethodID() == parse.MethodHead
	x.body, x.whole = body{done: true}, nil
	if h.HasBody() {
		x.untidy = h.Chunked
		x.body = body{chunked: h.Chunked, expects: h.ExpectContinue}
		if !h.Chunked {
			x.body.left = h.ContentLength
		}
	}
	x.begin = len(x.out)
	x.response.reset()
}

// settle gives back what the request needed beyond a head.
func (x *Ctx) settle() {
	x.trailers.Reset()
	if x.held != nil {
		x.spare, x.held = x.held, nil
	}
	if x.store != nil {
		giveBuffer(x.store)
		x.store = nil
	}
	x.untidy = false
	x.scratch = x.scratch[:0]
	x.deadline = never
	x.liftWriteDeadline()
	x.takeBack()
}

// Method returns the request method as it was sent; methods are case-sensitive.
func (c *Ctx) Method() string {
	c.check()
	return c.head.Method()
}

// Target returns the request target as it was sent (RFC 9112 section 3.2).
func (c *Ctx) Target() []byte {
	c.check()
	return c.head.Target()
}

// Path returns the path of the target without decoding it: "/" for an absolute
// target without a path, "*" for the asterisk form, empty for CONNECT.
func (c *Ctx) Path() []byte {
	c.check()
	return c.head.Path()
}

// DecodedPath returns the path with its %XX bytes decoded; false if one of them
// is malformed. It copies only if there is something to decode. A %2F becomes a
// slash like any other: if that matters, split Path first.
func (c *Ctx) DecodedPath() ([]byte, bool) {
	c.check()
	return c.decode(c.head.Path(), false)
}

// Query returns what follows the first '?' of the target, not decoded.
func (c *Ctx) Query() []byte {
	c.check()
	return c.head.RawQuery()
}

// Host returns the Host field, or the authority of an absolute target; if both
// are present, they agree.
func (c *Ctx) Host() []byte {
	c.check()
	if authority := c.head.Authority(); len(authority) > 0 {
		return authority
	}
	return c.head.Host()
}

// Header returns the value of the first field with that name, ignoring case; nil
// if there is none.
func (c *Ctx) Header(name string) []byte {
	c.check()
	value, _ := c.head.Lookup(name)
	return value
}

// Field returns the value of the first field with that well-known name, nil if
// there is none. It does not search.
func (c *Ctx) Field(id parse.FieldID) []byte {
	c.check()
	value, _ := c.head.Known(id)
	return value
}

// Fields iterates over the field lines in order.
func (c *Ctx) Fields() iter.Seq2[[]byte, []byte] {
	c.check()
	return c.head.All()
}

// ContentLength returns the length of the body in bytes; 0 without a body, -1 if
// it is chunked.
func (c *Ctx) ContentLength() int64 {
	c.check()
	if c.head.Chunked {
		return -1
	}
	return max(c.head.ContentLength, 0)
}

// Body reads the body without its chunked coding. The first Read tells a client
// that waits for it to continue (100 Continue). It ends with io.EOF, with
// ErrBodyTooLong, ErrTimeout, io.ErrUnexpectedEOF if the client closed inside the
// body, or a *parse.Error if the coding is at fault. After an error the
// connection is closed behind the response; if the handler gave none, the engine
// responses with the status that the error asks for.
func (c *Ctx) Body() io.Reader {
	c.check()
	return (*bodyReader)(c)
}

type bodyReader Ctx

func (b *bodyReader) Read(p []byte) (int, error) {
	c := (*Ctx)(b)
	c.check()
	return c.read(p)
}

// Trailers iterates over the trailer fields; there are none until the body has
// been read to its end.
func (c *Ctx) Trailers() iter.Seq2[[]byte, []byte] {
	c.check()
	if !c.body.chunked || !c.body.done {
		return func(func(name, value []byte) bool) {}
	}
	return c.trailers.All()
}

// Proto returns "HTTP/1.1" or "HTTP/1.0".
func (c *Ctx) Proto() string {
	if c.IsHTTP10() {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}

// IsHTTP10 reports whether the client uses HTTP/1.0.
func (c *Ctx) IsHTTP10() bool {
	c.check()
	return c.head.IsHTTP10()
}

// WantsContinue reports whether the client sends its body only after 100
// (Continue), which the first use of Body or ReadBody sends. Without such a use,
// the connection is closed after the response.
func (c *Ctx) WantsContinue() bool {
	c.check()
	return c.head.ExpectContinue
}

// RemoteAddr returns the address of the client's end of the connection.
func (c *Ctx) RemoteAddr() net.Addr {
	c.check()
	return c.conn.nc.RemoteAddr()
}

// LocalAddr returns the address of the server's end of the connection.
func (c *Ctx) LocalAddr() net.Addr {
	c.check()
	return c.conn.nc.LocalAddr()
}

// TLS returns the state of the TLS connection, nil without TLS.
func (c *Ctx) TLS() *tls.ConnectionState {
	c.check()
	if c.conn.tls == nil {
		return shownTLS(c.conn.nc)
	}
	return c.conn.tls
}

// Number returns the number of the request on its connection, from 1.
func (c *Ctx) Number() int {
	c.check()
	return c.conn.requests
}

// Server returns the server that serves the request.
func (c *Ctx) Server() *Server {
	c.check()
	return c.conn.server
}

// unread gives what was received behind what was read.
func (c *Ctx) unread() []byte { return c.in[c.r:c.w] }

// A Request is a detached copy of a request; it may be kept.
type Request struct {
	// Method, Target, Path, Query, Host and Proto are what Ctx gives.
	Method, Target, Path, Query, Host, Proto string
	// Fields and Trailers are the field lines in their order.
	Fields, Trailers []FieldLine
	// ContentLength is -1 for a chunked body.
	ContentLength int64
	// Body is what ReadBody returned; nil if it was not called or failed.
	Body []byte
	// RemoteAddr and LocalAddr are the ends of the connection.
	RemoteAddr, LocalAddr net.Addr
	// TLS is nil without TLS.
	TLS *tls.ConnectionState
}

// A FieldLine is one field line of a Request.
type FieldLine struct{ Name, Value string }

// Header returns the value of the first field with that name, ignoring case; ""
// if there is none.
func (r *Request) Header(name string) string {
	for _, field := range r.Fields {
		if equalFold(field.Name, name) {
			return field.Value
		}
	}
	return ""
}

// Clone copies the request, with what ReadBody returned. Use it to keep a request
// after the handler has returned.
func (c *Ctx) Clone() *Request {
	c.check()
	return &Request{
		Method:        c.Method(),
		Target:        string(c.Target()),
		Path:          string(c.Path()),
		Query:         string(c.Query()),
		Host:          string(c.Host()),
		Proto:         c.Proto(),
		Fields:        fieldLines(c.Fields()),
		Trailers:      fieldLines(c.Trailers()),
		ContentLength: c.ContentLength(),
		Body:          bytes.Clone(c.whole),
		RemoteAddr:    c.RemoteAddr(),
		LocalAddr:     c.LocalAddr(),
		TLS:           c.TLS(),
	}
}

func fieldLines(fields iter.Seq2[[]byte, []byte]) []FieldLine {
	var lines []FieldLine
	for name, value := range fields {
		lines = append(lines, FieldLine{string(name), string(value)})
	}
	return lines
}
