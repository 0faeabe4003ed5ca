package shockwave

import (
	"io"
	"math"

	"titan.test/shockwave/parse"
)

// A body is where reading a request's body stands.
type body struct {
	chunks
	chunked bool
	// done: every byte was read, trailers too.
	done bool
	// expects: the client waits for 100 (Continue), and the handler has not read the body yet. A client that has sent
	// some of it already does not wait.
	expects bool
	// waited: bytes of it were waited for; waits: they are now.
	waited, waits bool
	// came counts its bytes that were waited for, framing too.
	came int64
	// fault is why it cannot be read any further.
	fault error
}

// directSize is how many bytes a caller must want for them to be received where
// he wants them, without a way through the Ctx's buffer.
const directSize = 2 << 10

// read gives bytes of the body, at least one, or an error; io.EOF at its end.
func (x *Ctx) read(p []byte) (int, error) {
	b := &x.body
	b.expects = b.expects && x.r == x.w
	for {
		switch {
		case x.conn.hijacked:
			return 0, ErrHijacked
		case b.fault != nil:
			return 0, b.fault
		case b.done:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		case b.left == 0 && b.chunked:
			b.fault = x.readFraming()
			continue
		case x.r < x.w:
			n := copy(p, x.in[x.r:min(int64(x.w), int64(x.r)+b.left)])
			x.r += n
			x.took(n)
			return n, nil
		}
		if want := int(min(b.left, int64(len(p)))); want >= directSize {
			n, err := x.receiveBody(p[:want])
			b.fault = err
			x.took(n)
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		b.fault = x.fillBody()
	}
}

// took counts n bytes of data off.
func (x *Ctx) took(n int) {
	x.body.left -= int64(n)
	if x.body.left == 0 && !x.body.chunked {
		x.body.done = true
	}
}

// readFraming reads on to the next bytes of data, or to the end of the body.
func (x *Ctx) readFraming() error {
	b, limits := &x.body, &x.conn.server.limits
	n, err := b.frame(x.in[x.r:x.w], limits.ChunkLine, max(limits.Body, 0))
	x.r += n
	if err != nil || b.left > 0 {
		return err
	}
	if b.state == chunkTrailers {
		next, err := x.trailers.Parse(x.in[:x.w], x.r)
		if err == nil {
			x.r, b.done = next, true
			return nil
		}
		if err != parse.ErrIncomplete {
			return err
		}
	}
	return x.fillBody()
}

// fillBody receives more bytes of the body into the buffer.
func (x *Ctx) fillBody() error {
	_, err := x.receiveBody(nil)
	return err
}

// receiveBody receives bytes of the body into p, or into the buffer if p is nil,
// and before that lets the client know that it should send them, unless it has an
// response already (RFC 9110 section 10.1.1). It may give none: then a watch has put
// some into the buffer.
func (x *Ctx) receiveBody(p []byte) (int, error) {
	if x.body.expects {
		x.body.expects = false
		if !x.sent {
			x.out = append(x.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
		}
	}
	if len(x.out) > 0 {
		if err := x.flushUnlessSent(); err != nil {
			return 0, err
		}
	}
	if n := x.pauseWatch(); n > 0 {
		x.body.came += int64(n)
		x.resumeWatch()
		return 0, nil
	}
	into := p
	if p == nil {
		x.bodyRoom()
		into = x.in[x.w:]
	}
	n, err := x.wait(into)
	if p == nil {
		x.w += n
	}
	x.resumeWatch()
	return n, err
}

// wait receives bytes of the body while the sweep looks at the time: that of the body alone, because another goroutine
// may send, or wait to, meanwhile.
func (x *Ctx) wait(p []byte) (int, error) {
	c := x.conn
	if !x.body.waited {
		x.body.waited = true
		c.received.Store(0)
		c.bodies.Add(1)
	}
	if !x.readDeadline.IsZero() {
		c.nc.SetReadDeadline(x.readDeadline)
	}
	x.body.waits = true
	c.inBody.Add(1)
	lock := x.unlock()
	n, err := c.receive(p)
	relock(lock)
	c.inBody.Add(1)
	x.body.waits = false
	if !x.readDeadline.IsZero() {
		c.nc.SetReadDeadline(never)
	}
	x.body.came += int64(n)
	c.received.Add(int64(n))
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// ReadBody returns the whole body, or the part that Body has not read yet. A body
// of more than max bytes fails with ErrBodyTooLong; with a negative max, only
// Limits.Body applies. Other errors are those of Body.
func (c *Ctx) ReadBody(max int64) ([]byte, error) {
	c.check()
	if max < 0 {
		max = math.MaxInt64
	}
	b := &c.body
	b.expects = b.expects && c.r == c.w
	switch {
	case c.conn.hijacked:
		return nil, ErrHijacked
	case b.fault != nil:
		return nil, b.fault
	case b.done:
		return c.whole, nil
	case b.chunked:
		return c.collect(max, bufferSize)
	case b.left > max:
		b.fault = ErrBodyTooLong
		return nil, ErrBodyTooLong
	case b.left <= int64(c.w-c.r):
		n := int(b.left)
		c.whole = c.in[c.r : c.r+n : c.r+n]
		c.r += n
		c.took(n)
		return c.whole, nil
	}
	return c.collect(max, b.left)
}

// collect reads the rest of the body into a buffer of its own. It grows with what
// arrives: what a client only announces costs little.
func (x *Ctx) collect(max, expected int64) ([]byte, error) {
	n := 0
	for x.grow(0, int(min(expected, 2*bufferSize))); !x.body.done; {
		if n == len(x.store.b) {
			x.grow(n, 2*n)
		}
		got, err := x.read(x.store.b[n:])
		n += got
		switch {
		case int64(n) > max:
			x.body.fault = ErrBodyTooLong
			return nil, ErrBodyTooLong
		case err != nil && err != io.EOF:
			return nil, err
		}
	}
	x.whole = x.store.b[:n:n]
	return x.whole, nil
}

// grow gives the store room for size bytes and keeps the first n.
func (x *Ctx) grow(n, size int) {
	x.untidy = true
	old := x.store
	x.store = takeBuffer(max(size, 1))
	if old != nil {
		copy(x.store.b, old.b[:n])
		giveBuffer(old)
	}
}

// minRoom is the least room for bytes of a body that is worth a system call.
const minRoom = 2 << 10

// bodyRoom makes room behind what was received. The bytes before base are the
// head's, which the handler may look at: they stay where they are.
func (x *Ctx) bodyRoom() {
	x.untidy = true
	if x.r > x.base && (x.r == x.w || len(x.in)-x.w < minRoom) {
		x.w = x.base + copy(x.in[x.base:], x.in[x.r:x.w])
		x.r = x.base
	}
	if len(x.in)-x.w >= minRoom {
		return
	}
	next := x.spare
	if unread := x.w - x.r; len(next) < unread+minRoom {
		next = make([]byte, max(bufferSize, 2*unread+minRoom))
	}
	x.w = copy(next, x.in[x.r:x.w])
	if x.spare = nil; x.held == nil {
		x.held = x.in
	}
	x.in, x.r, x.base = next, 0, 0
}

// drain reads the rest of the body away, so that the next request can be read; it
// says whether it could.
func (x *Ctx) drain() bool {
	if !x.mayDrain() {
		return false
	}
	if x.store == nil {
		x.grow(0, bufferSize)
	}
	for end := x.position() + x.conn.server.limits.Drain; x.position() <= end; {
		if _, err := x.read(x.store.b); err != nil {
			return err == io.EOF
		}
	}
	return false
}

// position grows by each byte of the body that is read, framing too: chunks may be
// little else.
func (x *Ctx) position() int64 { return x.body.came - int64(x.w-x.r) }

// mayDrain reports whether it is worth trying: not if the body is known to be too
// long, nor if the client waits to be asked for it.
func (x *Ctx) mayDrain() bool {
	b := &x.body
	return b.fault == nil && !b.expects && b.left <= x.conn.server.limits.Drain
}

// headRoom makes room for more bytes of a head.
func (x *Ctx) headRoom() error {
	if x.r == x.w {
		x.r, x.w = 0, 0
		x.parser.Reset()
		return nil
	}
	if x.r > 0 {
		x.w = copy(x.in, x.in[x.r:x.w])
		x.r = 0
	}
	if x.w < len(x.in) {
		return nil
	}
	if x.w > x.conn.server.limits.Head+len("\r\n") {
		return parse.ErrHeadTooLong
	}
	x.in = append(x.in, make([]byte, len(x.in))...)
	return nil
}
