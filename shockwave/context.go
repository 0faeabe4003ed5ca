package shockwave

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// never and past are deadlines: the one lifts what the other ended.
var (
	never time.Time
	past  = time.Unix(1, 0)
)

// A watch looks, while a handler runs, whether the client closes its connection.
// It is there only if the handler asked for a Context.
//
// On a TCP connection, with TLS or without, it asks the kernel and reads nothing.
// On other connections it has to read: what it receives goes behind what the Ctx
// has, and once there is no room it sees no further.
type watch struct {
	// done is closed when the watch has ended.
	done chan struct{}
	nc   net.Conn

	mu sync.Mutex // guards the deadline of reading, and:
	// paused: it is to end.
	paused bool

	// got is the bytes that it put behind x.w, and err how reading ended.
	got int
	err error
}

// Context ends when the client closes the connection (cause ErrClientGone), when
// the server is closed or its Shutdown runs out of time (ErrServerClosed; see
// ShuttingDown), at the deadline, and when the handler returns. It is created by
// the first call; a request that does not call it pays nothing. That call also
// sends responses to earlier requests that are still buffered. The context may
// outlive the handler.
func (c *Ctx) Context() context.Context {
	c.check()
	if c.context != nil {
		return c.context
	}
	s := c.conn.server
	ctx, cancel := context.WithCancelCause(s.base)
	c.context, c.cancel = ctx, func() { cancel(context.Canceled) }
	if !c.deadline.IsZero() {
		limited, release := context.WithDeadline(ctx, c.deadline)
		c.context, c.cancel = limited, func() { cancel(context.Canceled); release() }
	}
	c.conn.cancel.Store(&cancel)
	// Behind the store, so that either this sees Close or Close the cancel.
	if s.closed.Load() {
		cancel(ErrServerClosed)
	}
	c.flushUnlessSent()
	c.resumeWatch()
	return c.context
}

// ShuttingDown returns a channel that is closed when Shutdown of the Server
// begins (or the channel that the connection itself returns, if it has a method
// of this name). A graceful shutdown waits for the handler and leaves its Context
// alone; a handler that would stream for ever returns then. In one that sends
// events:
//
//	select {
//	case event := <-events:
//		c.Write(event)
//		c.Flush()
//	case <-c.ShuttingDown():
//		return // the client reconnects, and finds another server
//	case <-c.Context().Done():
//		return
//	}
func (c *Ctx) ShuttingDown() <-chan struct{} {
	c.check()
	if shown, ok := c.conn.nc.(interface{ ShuttingDown() <-chan struct{} }); ok {
		return shown.ShuttingDown()
	}
	return c.conn.server.stopping
}

// SetDeadline sets when the Context ends with context.DeadlineExceeded; the zero
// time means never. It must be called before the first call of Context; otherwise
// it changes nothing and returns false.
func (c *Ctx) SetDeadline(t time.Time) bool {
	c.check()
	if c.context != nil {
		return false
	}
	c.deadline, c.untidy = t, true
	return true
}

// endContext ends what Context began.
func (x *Ctx) endContext() {
	x.pauseWatch()
	x.conn.cancel.Store(nil)
	x.cancel()
	x.context, x.cancel = nil, nil
}

// resumeWatch begins to watch if there is a Context to end. While somebody waits for
// the body he sees what a watch would see.
func (x *Ctx) resumeWatch() {
	if x.context == nil || x.watch != nil || x.body.waits || x.conn.early != nil || x.conn.hijacked {
		return
	}
	c := x.conn
	w := &watch{nc: c.nc, done: make(chan struct{})}
	x.watch = w
	gone := *c.cancel.Load()
	if raw := socketOf(c.nc); raw != nil {
		go func() {
			defer close(w.done)
			err := raw.Read(hungUp)
			for w.goesOn(err) {
				err = raw.Read(hungUp)
			}
			if err == nil {
				gone(ErrClientGone)
			}
		}()
		return
	}
	room := x.in[x.w:]
	go func() {
		defer close(w.done)
		w.fill(room)
		if w.err != nil {
			gone(ErrClientGone)
		}
	}()
}

// fill reads until room is full or reading ends; a watch that is paused is no end.
func (w *watch) fill(room []byte) {
	for w.got < len(room) {
		n, err := w.nc.Read(room[w.got:])
		w.got += n
		if err != nil && !w.goesOn(err) {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				w.err = err
			}
			return
		}
	}
}

// goesOn reports whether a deadline ended the watch which was meant for the wait for this
// request, and lifts it.
func (w *watch) goesOn(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	w.nc.SetReadDeadline(never)
	return true
}

// pause ends the watch.
func (w *watch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = true
	w.nc.SetReadDeadline(past)
}

// pauseWatch ends the watch, takes what it received and says how much that is.
func (x *Ctx) pauseWatch() int {
	w := x.watch
	if w == nil {
		return 0
	}
	w.pause()
	<-w.done
	w.nc.SetReadDeadline(never)
	x.watch = nil
	x.w += w.got
	x.conn.early = w.err
	return w.got
}
