package shockwave

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// Share lets other goroutines use the Ctx until the handler returns, each while
// it holds lock; the caller holds it now. A call that waits for the client
// releases lock meanwhile: so one goroutine can send the response while another
// receives the body, and neither waits for the other. Each direction allows one
// goroutine: while one reads (Body, ReadBody), no other may read or call Hijack;
// while one writes (Write, Flush, Send and everything else that makes the
// response), no other may write or call Hijack; and the handler may not return.
// SendFile does not release lock.
func (c *Ctx) Share(lock sync.Locker) {
	c.check()
	c.lock, c.sendingOver.L, c.untidy = lock, lock, true
}

// unlock gives the lock of Share up for a wait, and gives what relock takes back.
func (x *Ctx) unlock() sync.Locker {
	lock := x.lock
	if lock != nil {
		lock.Unlock()
	}
	return lock
}

func relock(lock sync.Locker) {
	if lock != nil {
		lock.Lock()
	}
}

// takeBack ends the sharing and the handler's deadline, which is not that of what
// the engine reads behind the handler.
func (x *Ctx) takeBack() {
	x.lock, x.readDeadline = nil, never
}

// SetReadDeadline sets when reading the body fails with ErrTimeout; it also
// applies to a read that another goroutine waits in. With the zero time only
// Timeouts apply, as they do in any case. The deadline ends with the handler.
func (c *Ctx) SetReadDeadline(t time.Time) error {
	c.check()
	if c.conn.hijacked {
		return ErrHijacked
	}
	c.readDeadline, c.untidy = t, true
	if !c.body.waits {
		// A watch may be reading, which it does not concern.
		return nil
	}
	return c.conn.nc.SetReadDeadline(t)
}

// SetWriteDeadline sets when sending the response fails with ErrTimeout, which
// ends the connection. With the zero time only Timeouts apply, as they do in any
// case. The deadline ends with the exchange. Buffered responses to earlier
// requests are sent first.
func (c *Ctx) SetWriteDeadline(t time.Time) error {
	c.check()
	if c.conn.hijacked {
		return ErrHijacked
	}
	if !c.sent {
		if err := c.flushUnlessSent(); err != nil {
			return err
		}
	}
	c.writeDeadline, c.untidy = t, true
	return c.conn.nc.SetWriteDeadline(t)
}

// obeyWriteDeadline sends what the deadline is about before lifting it.
func (x *Ctx) obeyWriteDeadline() {
	if !x.writeDeadline.IsZero() {
		x.flushUnlessSent()
	}
}

func (x *Ctx) liftWriteDeadline() {
	if !x.writeDeadline.IsZero() {
		x.writeDeadline = never
		x.conn.nc.SetWriteDeadline(never)
	}
}

// shownTLS is the state that a connection shows though it is no *tls.Conn, such as
// one that hands on the requests of another protocol.
func shownTLS(nc net.Conn) *tls.ConnectionState {
	shown, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	state := shown.ConnectionState()
	return &state
}
