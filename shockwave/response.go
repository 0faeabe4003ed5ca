package shockwave

import "titan.test/shockwave/parse"

// A response is where the response to a request stands. Its head is put together
// when it is clear how long the body is: by Send, when more is written than is
// kept, or when the handler has returned.
type response struct {
	status int
	// length is what Content-Length says, unset without it.
	length  int64
	written int64
	lines   []byte // field lines that the handler set, with their CRLFs
	kind    []byte // the Content-Type that the handler set
	kept    []byte // body bytes that are not in out yet
	after   []byte // trailer lines
	coding  coding

	keep     bool // the connection goes on behind this response
	bodiless bool // the request was HEAD
	sent     bool // the head is in out
	complete bool // and all of the body
	upgrade  bool // Connection has that option
	noDate   bool // no Date of the engine's
	noServer bool

	// start is the beginning of the last ordinary response, startOf and startType
	// what it was put together from.
	start     []byte
	startOf   *stamp
	startType []byte
}

// A coding is how the client sees where the response's body ends.
type coding uint8

const (
	byLength coding = iota
	byChunks
	byClose
	noBody // the status has none, or the request was HEAD
)

// unset is the length of a response without Content-Length.
const unset = -1

func (a *response) reset() {
	a.status, a.length, a.written = 200, unset, 0
	a.lines, a.kind, a.kept, a.after = a.lines[:0], a.kind[:0], a.kept[:0], a.after[:0]
	a.sent, a.complete, a.upgrade, a.noDate, a.noServer = false, false, false, false, false
}

// untouched reports whether the handler has neither written nor chosen anything.
func (a *response) untouched() bool {
	return !a.sent && a.status == 200 && len(a.kept) == 0
}

// SetStatus sets the status of the response, 200 to 599. Interim responses are
// Interim's; 101 is Hijack's. Default 200.
func (c *Ctx) SetStatus(status int) error {
	c.check()
	if err := c.mayChangeHead(); err != nil {
		return err
	}
	if status < 200 || status > 599 {
		return ErrBadStatus
	}
	c.status = status
	return nil
}

// Status returns the current status of the response.
func (c *Ctx) Status() int {
	c.check()
	return c.status
}

// Sent reports whether the response's head can no longer change.
func (c *Ctx) Sent() bool {
	c.check()
	return c.sent
}

// Send responds with this whole body. With contentType "" it sends no
// Content-Type, or the one that was Set. Nothing can be written after it, and
// nothing may have been written before it (ErrBodyBegun). It does not retain
// body.
func (c *Ctx) Send(contentType string, body []byte) error {
	c.check()
	again := contentType == string(c.startType)
	switch {
	case c.sent || len(c.kept) > 0 || c.conn.hijacked:
		return c.tooLate()
	case !again && !parse.ValidValue(contentType):
		return ErrBadField
	case c.length != unset && c.length != int64(len(body)) && !c.isBare():
		return ErrContentLength
	case len(c.after) > 0:
		return c.sendWithTrailers(contentType, body)
	}
	if len(c.kind) == 0 && c.isOrdinary() && c.hasRoom(len(contentType)+len(body)) {
		c.appendOrdinary(contentType, again, body)
		return nil
	}
	c.appendHead(contentType, int64(len(body)))
	c.complete = true
	if c.coding == noBody {
		return nil
	}
	return c.push(body)
}

// SendString is Send for a string.
func (c *Ctx) SendString(contentType, body string) error {
	return c.Send(contentType, bytesOf(body))
}

func (c *Ctx) sendWithTrailers(contentType string, body []byte) error {
	if contentType != "" {
		c.kind = append(c.kind[:0], contentType...)
	}
	if _, err := c.Write(body); err != nil {
		return err
	}
	return c.finishBody()
}

// tooLate returns why a response can no longer be begun.
func (c *Ctx) tooLate() error {
	switch {
	case c.conn.hijacked:
		return ErrHijacked
	case c.sent:
		return ErrHeadSent
	}
	return ErrBodyBegun
}

// Write adds to the response's body. Up to Limits.ResponseBuffer bytes are
// buffered until the handler returns and then sent with Content-Length; a longer
// response is sent chunked (for HTTP/1.0: it ends with the connection) unless
// Content-Length was set.
func (c *Ctx) Write(p []byte) (int, error) {
	c.check()
	if err := c.mayWrite(len(p)); err != nil {
		return 0, err
	}
	c.written += int64(len(p))
	if !c.sent && c.length != unset {
		c.appendHead("", unset)
	}
	switch {
	case !c.sent || c.coding == byChunks:
		if len(c.kept)+len(p) <= c.conn.server.limits.ResponseBuffer {
			c.kept = append(c.kept, p...)
			return len(p), nil
		}
		if !c.sent {
			c.appendHead("", unset)
		}
		if err := c.emitKept(); err != nil {
			return 0, err
		}
	}
	if err := c.emit(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString is Write for a string.
func (c *Ctx) WriteString(s string) (int, error) { return c.Write(bytesOf(s)) }

func (c *Ctx) mayWrite(n int) error {
	switch {
	case c.conn.hijacked:
		return ErrHijacked
	case c.complete:
		return ErrResponseComplete
	case hasNoContent(c.status):
		return ErrNoBody
	case c.length != unset && int64(n) > c.length-c.written:
		return ErrContentLength
	}
	return c.conn.broken
}

// emit sends bytes of the body in its coding.
func (c *Ctx) emit(p []byte) error {
	switch {
	case len(p) == 0 || c.coding == noBody:
		return nil
	case c.coding != byChunks:
		return c.push(p)
	}
	if cap(c.out)-len(c.out) < len("123456789abcdef0\r\n") {
		if err := c.flushNow(); err != nil {
			return err
		}
	}
	c.out = append(appendHex(c.out, uint64(len(p))), "\r\n"...)
	if err := c.push(p); err != nil {
		return err
	}
	return c.push(crlf)
}

var crlf = []byte("\r\n")

func (c *Ctx) emitKept() error {
	err := c.emit(c.kept)
	c.kept = c.kept[:0]
	return err
}

// finishBody sends what is missing of the response.
func (c *Ctx) finishBody() error {
	if c.complete {
		return nil
	}
	if !c.sent && len(c.after) == 0 && c.isOrdinary() && c.hasRoom(len(c.kind)+len(c.kept)) {
		c.appendOrdinary(view(c.kind), string(c.kind) == string(c.startType), c.kept)
		return nil
	}
	if !c.sent {
		length := int64(len(c.kept))
		if len(c.after) > 0 && !c.head.IsHTTP10() {
			length = unset
		}
		// Announced and not written: the client must not wait for it.
		c.keep = c.keep && (c.length == unset || c.length == c.written || c.isBare())
		c.appendHead("", length)
	}
	c.complete = true
	if err := c.emitKept(); err != nil {
		return err
	}
	switch {
	case c.coding == byChunks:
		return c.finishChunks()
	case c.coding == byLength && c.length != unset && c.written < c.length:
		c.keep = false
	}
	return nil
}

func (c *Ctx) finishChunks() error {
	if err := c.push(lastChunk); err != nil {
		return err
	}
	if err := c.push(c.after); err != nil {
		return err
	}
	return c.push(crlf)
}

var lastChunk = []byte("0\r\n")

// finish completes the response and reads the request to its end, so that another
// can follow.
func (x *Ctx) finish() error {
	if x.untidy {
		x.takeBack()
	}
	if x.context != nil {
		x.endContext()
	}
	if x.body.fault != nil && x.untouched() {
		x.respondFault(statusOf(x.body.fault))
	}
	if !x.complete {
		x.finishBody()
	}
	if x.untidy {
		x.obeyWriteDeadline()
	}
	if !x.body.done {
		x.keep = x.keep && x.drain()
		x.untidy = true
	}
	if x.untidy {
		x.settle()
	}
	return x.conn.broken
}

// mayReceiveMore reports whether the client may send something behind a response that
// ends the connection.
func (x *Ctx) mayReceiveMore() bool {
	return x.r < x.w || !x.body.done || x.head.KeepAlive
}

// refuse responses to what is no request. Whatever method it may have had, or the
// request before it, the response has a body.
func (x *Ctx) refuse(status int, reason string) {
	x.bodiless = false
	x.respondFault(status, reason)
}

// respondFault responds in place of a handler, and ends the connection.
func (x *Ctx) respondFault(status int, reason string) {
	x.reset()
	x.keep = false
	x.Error(status, reason)
}

// statusOf returns the status for a fault of a body.
func statusOf(fault error) (status int, reason string) {
	if of, ok := fault.(*parse.Error); ok {
		return of.Status, of.Reason
	}
	switch fault {
	case ErrBodyTooLong:
		return 413, ""
	case ErrTimeout:
		return 408, "the request body took too long"
	}
	return 400, "the request body was cut short"
}

// Flush sends what was written so far. The first call fixes the head: unless
// Content-Length is set, the response is chunked (for HTTP/1.0: it ends with the
// connection).
func (c *Ctx) Flush() error {
	c.check()
	if c.conn.hijacked {
		return ErrHijacked
	}
	if !c.sent {
		c.appendHead("", unset)
	}
	if err := c.emitKept(); err != nil {
		return err
	}
	return c.flushNow()
}
