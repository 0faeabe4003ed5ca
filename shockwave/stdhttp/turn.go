package stdhttp

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"titan.test/shockwave"
)

// A turn lets one goroutine at a time use a Ctx, which knows only the handler's. net/http's handlers give the body and
// the context to others, and those may outlive the handler. A goroutine that waits for the client gives
// its turn up meanwhile; see [shockwave.Ctx.Share].
type turn struct {
	// reads is held by the goroutine that reads the body, writes by the one that writes the response, all the time:
	// both give mu up while they wait for the client. reads is locked before writes, and both before mu.
	reads, writes sync.Mutex

	mu  sync.Mutex      // guards what follows, and the Ctx
	c   *shockwave.Ctx  // nil when the handler has returned
	ctx context.Context // the engine's, once somebody asked
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// share lets others than the handler's goroutine have turns.
func (u *turn) share() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.c.Share(&u.mu)
}

// end takes the Ctx away. A Read of the body that is under way fails: the engine's reader is then the next request's. A
// Write is waited for, which the engine's Timeouts bound.
func (u *turn) end() {
	if !u.reads.TryLock() {
		u.mu.Lock()
		_ = u.c.SetReadDeadline(longAgo)
		u.mu.Unlock()
		u.reads.Lock()
	}
	defer u.reads.Unlock()
	u.writes.Lock()
	defer u.writes.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.c = nil
}

// ask gives the engine's context. It is not requested before the handler needs to know when it ends: a request whose
// context is not used is not watched.
func (u *turn) ask() context.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.ctx != nil:
	case u.c == nil:
		u.ctx = over
	default:
		u.ctx = u.c.Context()
	}
	return u.ctx
}

// asked gives the engine's context if it was requested, or if it has ended.
func (u *turn) asked() context.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ctx == nil && u.c == nil {
		return over
	}
	return u.ctx
}

// over is the context of every request that ended before its context was requested.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// A requestContext is the engine's context with the values that net/http's servers put into theirs.
type requestContext struct {
	turn  *turn
	base  context.Context
	local net.Addr
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.base.Deadline() }

func (c *requestContext) Done() <-chan struct{} { return c.turn.ask().Done() }

func (c *requestContext) Err() error { return c.turn.ask().Err() }

func (c *requestContext) Value(key any) any {
	switch key {
	case http.ServerContextKey:
		return standIn
	case http.LocalAddrContextKey:
		return c.local
	}
	// Behind Done the context package looks here for the engine's context, whose end it then need not wait for.
	if ctx := c.turn.asked(); ctx != nil && ctx != over {
		return ctx.Value(key)
	}
	return c.base.Value(key)
}

// standIn is the value of http.ServerContextKey. Handlers that find none there take themselves to be outside of a
// server: httputil.ReverseProxy would then let a body that broke off pass for a whole one.
var standIn = &http.Server{}

func baseContext(c *shockwave.Ctx) context.Context {
	if base := c.Server().BaseContext; base != nil {
		return base
	}
	return context.Background()
}
