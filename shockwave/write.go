package shockwave

import (
	"errors"
	"net"
	"os"
)

// pieceSize is the most that one call of net.Conn.Write is given where the engine
// does not write itself: between two of them it is seen that the client takes
// bytes.
const pieceSize = 16 << 10

// flush sends what is in the Ctx's out buffer. A caller that goes on without waiting for
// something else marks that: see flushNow.
func (c *conn) flush() error {
	for x := c.ctx; x != nil && len(x.out) > 0; {
		// The reader of the body may add a 100 meanwhile.
		if err := x.sendOut(); err != nil {
			return err
		}
	}
	return c.broken
}

// sendOut sends what is in out now, and keeps what others add meanwhile.
func (x *Ctx) sendOut() error {
	n := len(x.out)
	err := x.conn.write(x.out)
	if x.begin = 0; err != nil {
		n = len(x.out)
	}
	x.out = x.out[:copy(x.out, x.out[n:])]
	return err
}

// flushNow is flush for the goroutine that makes the response. One that reads the body, or
// asks for the Context, may be sending what was there before: what follows waits for that.
func (x *Ctx) flushNow() error {
	for x.sending {
		x.sendingOver.Wait()
	}
	err := x.conn.flush()
	x.conn.mark(phaseBusy)
	return err
}

// flushUnlessSent is for a goroutine that has nothing of its own in the response: it sends
// what is there, but neither waits for one that is sending it already nor sends what is
// added meanwhile, for which another one waits.
func (x *Ctx) flushUnlessSent() error {
	if x.sending {
		return nil
	}
	err := x.conn.broken
	if len(x.out) > 0 {
		err = x.sendOut()
	}
	x.conn.mark(phaseBusy)
	return err
}

// push sends p behind what is in the out buffer; what fits into the buffer stays
// there.
func (x *Ctx) push(p []byte) error {
	if room := cap(x.out) - len(x.out); len(p) > room {
		// The first write is full, so that short responses' heads do not travel alone.
		x.out = append(x.out, p[:room]...)
		p = p[room:]
		if err := x.flushNow(); err != nil {
			return err
		}
		if len(p) >= cap(x.out) {
			err := x.conn.write(p)
			x.conn.mark(phaseBusy)
			return err
		}
	}
	x.out = append(x.out, p...)
	return nil
}

// write sends p now.
func (c *conn) write(p []byte) error {
	if c.broken != nil {
		return c.broken
	}
	x := c.ctx
	x.sending = true
	lock := x.unlock()
	err := c.send(p)
	relock(lock)
	if x.sending = false; err != nil {
		c.broken = err
	}
	x.sendingOver.Signal()
	return err
}

func (c *conn) send(p []byte) error {
	if c.raw != nil {
		return c.writeRaw(p)
	}
	return c.writePieces(p)
}

func (c *conn) writeRaw(p []byte) error {
	c.src = p
	for {
		err := c.raw.Write(c.writeFn)
		if err == nil {
			err = c.writeFault
		}
		if err = lateness(err); err != ErrTimeout || !c.wasOtherWrite() {
			c.src = nil
			return err
		}
	}
}

func (c *conn) writePieces(p []byte) error {
	for len(p) > 0 {
		c.mark(phaseWrite)
		n, err := c.nc.Write(p[:min(len(p), pieceSize)])
		p = p[n:]
		if err == nil {
			continue
		}
		if err = lateness(err); err != ErrTimeout || !c.wasOtherWrite() {
			return err
		}
	}
	return nil
}

// wasOtherWrite is wasOther for writing.
func (c *conn) wasOtherWrite() bool {
	x := c.ctx
	relock(x.lock)
	defer x.unlock()
	c.late.Lock()
	defer c.late.Unlock()
	was := c.late.write
	if c.late.write = 0; was == 0 || was == c.progress.Load() {
		return false
	}
	c.nc.SetWriteDeadline(x.writeDeadline)
	return true
}

// cutShort resets the connection if what was sent of the response would pass for all
// of it: its end is the connection's (RFC 9112 section 8). Nothing is sent behind it.
func (x *Ctx) cutShort() {
	c := x.conn
	if !x.sent || x.coding != byClose || x.complete && c.broken == nil {
		return
	}
	x.keep, x.complete = false, true
	if c.broken == nil {
		c.broken = net.ErrClosed
	}
	resetNow(c.nc)
}

// lateness is err, or ErrTimeout if the sweep made it.
func lateness(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrTimeout
	}
	return err
}
