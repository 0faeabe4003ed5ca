package shockwave

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"titan.test/shockwave/parse"
)

// A conn is one connection. Only its goroutine touches it, and those with which the
// handler shares it (see Share), but for the atomics, by which the sweep, Shutdown
// and Close see it, and for seen, which is the sweep's.
type conn struct {
	server *Server
	nc     net.Conn
	// raw is nil for what is not a TCP socket; see socket_linux.go.
	raw syscall.RawConn
	tls *tls.ConnectionState
	// ctx is nil while a TCP or TLS connection waits for its next request: so an idle
	// one owns no buffer. At all other times there is one.
	ctx *Ctx
	// first is where the first byte of a request in TLS goes.
	first [1]byte
	// readFn and writeFn are tryRead and tryWrite; to make them once costs less
	// than at each call.
	readFn, writeFn func(fd uintptr) bool
	// dst and src are what they work on, got and the faults what comes of it: two, for
	// with Share both go on at once.
	dst, src              []byte
	got                   int
	readFault, writeFault error
	// early is how reading ended while a handler was watched; see context.go.
	early error
	// broken is the first failure to write; nothing is written behind it.
	broken   error
	requests int
	steps    uint64
	hijacked bool

	// progress is steps<<phaseBits | phase: it changes whenever the connection
	// comes forward, and the sweep measures how long it stays the same.
	progress atomic.Uint64
	// received counts the bytes of the last body that was waited for, and bodies
	// such bodies.
	received atomic.Int64
	bodies   atomic.Uint32
	// inBody is odd while bytes of a body are waited for, and changes with each such
	// wait: responses are sent meanwhile, so it is no phase.
	inBody atomic.Uint64
	// late is the waits that were ended from outside.
	late late
	// cancel ends the Context of the running request; nil if it was not requested.
	cancel atomic.Pointer[context.CancelCauseFunc]
	seen   sighting
}

// A phase is what a connection waits for.
type phase uint64

const (
	phaseBusy      phase = iota // nothing
	phaseHandshake              // the TLS handshake
	phaseFresh                  // the first byte of a new connection
	phaseIdle                   // the next request
	phaseHead                   // the rest of a head
	phaseWrite                  // the client to take bytes
	phaseLinger                 // the client to close
	phaseBits      = 3
)

// mark notes that the connection came forward, and what it waits for now. That a wait
// is over is not marked: an atomic store for each request would show. The sweep may
// end a wait that is over, and the next one finds out; see wasOther.
func (c *conn) mark(p phase) {
	c.steps++
	c.progress.Store(c.steps<<phaseBits | uint64(p))
}

// run serves the connection from its first byte to its close.
func (c *conn) run() (err error) {
	defer c.finally()
	if secure, ok := c.nc.(*tls.Conn); ok {
		if over, err := c.handshake(secure); over || err != nil {
			return err
		}
	}
	if c.raw == nil && c.tls == nil {
		c.takeCtx()
	}
	return c.serve()
}

// handshake says over when the connection was for another protocol, and was served.
func (c *conn) handshake(secure *tls.Conn) (over bool, err error) {
	c.mark(phaseHandshake)
	if err := secure.HandshakeContext(c.server.base); err != nil {
		c.server.handshakeFailed(secure, err)
		return false, lateness(err)
	}
	c.mark(phaseBusy)
	state := secure.ConnectionState()
	c.tls = &state
	if serve := c.server.NextProto[state.NegotiatedProtocol]; serve != nil {
		serve(c.server, secure)
		return true, nil
	}
	return false, nil
}

// finally ends the connection however run ended: by returning, by the handler's
// panic or by runtime.Goexit.
func (c *conn) finally() {
	if c.ctx != nil {
		c.ctx.cutShort()
	}
	if reason := recover(); reason != nil {
		c.panicked(reason)
	}
	s := c.server
	if c.ctx != nil {
		c.abandon()
	}
	if !c.hijacked {
		c.nc.Close()
	}
	s.leave(c)
	if c.ctx != nil {
		c.retire()
		c.giveCtx()
	}
	s.giveConn(c)
}

// abandon ends an exchange that was not finished, if there is one: what is not sent
// of it is not to be sent, but responses to earlier requests are.
func (c *conn) abandon() {
	x := c.ctx
	x.takeBack()
	if x.context != nil {
		x.endContext()
	}
	if !c.hijacked {
		x.out = x.out[:x.begin]
		c.flush()
	}
}

// panicked logs, and responds with 500 if the handler had not responded.
func (c *conn) panicked(reason any) {
	x := c.ctx
	if reason == ErrAbort {
		return
	}
	c.server.log.Error("handler panicked", "panic", reason, "stack", string(debug.Stack()))
	if c.hijacked || x == nil {
		return
	}
	x.takeBack()
	if x.context != nil {
		x.endContext()
	}
	if !x.sent {
		x.respondFault(500, "")
	}
	c.end(true)
}

// serve reads a head, has the handler respond, and goes on until the connection
// ends. The error is nil if it ended between two messages.
func (c *conn) serve() error {
	for {
		if err := c.readHead(); err != nil {
			return c.refuse(err)
		}
		c.ctx.frame()
		c.server.Handler(c.ctx)
		if c.hijacked {
			return nil
		}
		if err := c.ctx.finish(); err != nil {
			return err
		}
		c.retire()
		if !c.ctx.keep {
			return c.end(c.ctx.mayReceiveMore())
		}
	}
}

// readHead gets a complete head, out of what was received behind the last request
// if it is there. Only if it is not are responses sent: so those to a batch of
// requests leave in one write.
func (c *conn) readHead() error {
	wait := phaseIdle
	if c.requests == 0 {
		wait = phaseFresh
	}
	for {
		if x := c.ctx; x != nil && x.r < x.w {
			next, err := x.parser.Parse(x.in[:x.w], x.r)
			if err == nil {
				x.r, x.base = next, next
				return nil
			}
			if err != parse.ErrIncomplete {
				return err
			}
		}
		if err := c.flush(); err != nil {
			return err
		}
		if wait != phaseHead && c.ctx != nil && c.ctx.r < c.ctx.w {
			// The time of a head is one time, however many pieces it comes in: so this is
			// not marked again.
			wait = phaseHead
			c.mark(wait)
		}
		if err := c.fillHead(wait); err != nil {
			return err
		}
	}
}

// fillHead receives bytes of a head.
func (c *conn) fillHead(wait phase) error {
	if wait != phaseHead {
		c.mark(wait)
		// Behind the mark, so that either this sees Shutdown or Shutdown the mark.
		if c.server.closing.Load() {
			return ErrServerClosed
		}
	}
	if c.ctx != nil {
		if err := c.ctx.headRoom(); err != nil {
			return err
		}
	}
	if wait != phaseHead {
		switch {
		case c.raw != nil:
			return c.receiveIdle()
		case c.tls != nil:
			return c.receiveIdleTLS()
		}
	}
	n, err := c.receive(c.ctx.in[c.ctx.w:])
	c.ctx.w += n
	if err == io.EOF && wait == phaseHead {
		return io.ErrUnexpectedEOF
	}
	return err
}

// receiveIdle is receive for the beginning of a head on a TCP connection: there is
// a Ctx, and with it a buffer, only when there are bytes for it.
func (c *conn) receiveIdle() error {
	n, err := c.receive(nil)
	if n > 0 {
		c.ctx.w = n
	}
	return err
}

// receiveIdleTLS is receiveIdle for TLS, which tells that there are bytes only when
// one of them is taken.
func (c *conn) receiveIdleTLS() error {
	if c.ctx != nil {
		c.giveCtx()
	}
	n, err := c.receive(c.first[:])
	if n > 0 {
		c.takeCtx().in[0] = c.first[0]
		c.ctx.w = n
	}
	return err
}

// receive waits for bytes: it gives at least one, or an error. ErrTimeout says
// that the sweep ended the wait.
func (c *conn) receive(dst []byte) (n int, err error) {
	if c.early != nil {
		return 0, c.early
	}
	for {
		if n, err = c.readOnce(dst); n > 0 {
			return n, nil
		}
		if err == nil {
			return 0, io.ErrNoProgress
		}
		if err = lateness(err); err != ErrTimeout || !c.wasOther() {
			return 0, err
		}
	}
}

func (c *conn) readOnce(dst []byte) (n int, err error) {
	if c.raw == nil {
		return c.nc.Read(dst)
	}
	c.dst, c.got = dst, 0
	err = c.raw.Read(c.readFn)
	if n, c.dst = c.got, nil; err == nil {
		err = c.readFault
	}
	return n, err
}

// wasOther reports whether it was not this wait that the sweep found too long, but the one
// before it, which ended at that moment; and lets this one go on.
func (c *conn) wasOther() bool {
	x := c.ctx
	if x != nil {
		relock(x.lock)
		defer x.unlock()
	}
	c.late.Lock()
	defer c.late.Unlock()
	read, body := c.late.read, c.late.body
	c.late.read, c.late.body = 0, 0
	switch now := c.inBody.Load(); {
	case read == 0 && body == 0:
		return false
	case now%2 == 1 && body == now, now%2 == 0 && read == c.progress.Load():
		return false
	case x == nil:
		c.nc.SetReadDeadline(never)
	default:
		c.nc.SetReadDeadline(x.readDeadline)
	}
	return true
}

// refuse ends a connection on which no further request can be read: with a
// response if there is a fault to name.
func (c *conn) refuse(err error) error {
	x := c.ctx
	inside := x != nil && x.r < x.w
	fault, isFault := err.(*parse.Error)
	switch {
	case isFault:
		x.refuse(fault.Status, fault.Reason)
	case err == ErrTimeout && inside && !c.server.closing.Load():
		x.refuse(408, "the request head took too long")
	case !inside && (err == ErrTimeout || err == io.EOF || err == ErrServerClosed):
		return nil
	default:
		return err
	}
	if failed := c.end(true); failed != nil {
		return failed
	}
	return err
}

// end sends what is unsent, and then reads away what the client still sends if more may come: unread bytes would make
// its TCP throw the response away (RFC 9112 section 9.6).
func (c *conn) end(more bool) error {
	if err := c.flush(); err != nil || !more {
		return err
	}
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || c.server.limits.Linger < 0 || half.CloseWrite() != nil {
		return nil
	}
	c.nc.SetReadDeadline(never)
	c.mark(phaseLinger)
	in := c.ctx.in
	for left := c.server.limits.Linger; left > 0; {
		n, err := c.receive(in[:min(int64(len(in)), left)])
		if err != nil {
			return nil
		}
		left -= int64(n)
	}
	return nil
}
