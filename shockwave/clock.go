package shockwave

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock is the coarse clock of a Server: while there are connections it keeps the Date and looks, a few times a
// second, which of them waited too long. It is a timer and no goroutine, so that nothing is left of a server without
// connections. The Server's mutex guards it, but for stamp.
type clock struct {
	stamp atomic.Pointer[stamp]
	// every is the time between two sweeps; it does not change.
	every time.Duration
	// timer is nil while the clock stands still.
	timer *time.Timer
	last  time.Time // when the last sweep was
}

// A stamp is what heads of responses begin with in one second. It does not change.
type stamp struct {
	second int64
	// date is the Date line, and both that with the Server line before it.
	date, both string
	// ok is the status line of 200, and both.
	ok string
}

// A sighting is what the sweep saw of a connection.
type sighting struct {
	progress uint64
	since    time.Time
	// inBody and inBodySince are the same for the wait for a body.
	inBody      uint64
	inBodySince time.Time
	bodies      uint32
	// waited is for how long bytes of that body were waited for.
	waited time.Duration
	// unsent is what of the response was in the kernel; see tookSome.
	unsent uint32
	index  int // in Server.conns; guarded by the Server's mutex
}

// dateFormat is that of RFC 9110 section 5.6.7, for times in UTC.
const dateFormat = "Mon, 02 Jan 2006 15:04:05 GMT"

const (
	slowestSweep = 250 * time.Millisecond
	fastestSweep = 5 * time.Millisecond
)

// sweepEvery gives the pace at which no timeout is missed by more than half.
func (t *Timeouts) sweepEvery() time.Duration {
	every := slowestSweep
	for _, d := range []time.Duration{t.Head, t.Body, t.Write, t.Idle, t.Linger, t.BodyGrace} {
		if d > 0 {
			every = min(every, d/4)
		}
	}
	return max(every, fastestSweep)
}

// startClock starts the clock; the caller holds the mutex.
func (s *Server) startClock() {
	if s.clock.timer != nil {
		return
	}
	s.clock.last = time.Now()
	s.setDate(s.clock.last)
	s.clock.timer = time.AfterFunc(s.clock.every, s.tick)
}

// stopClock stops it; the caller holds the mutex.
func (s *Server) stopClock() {
	if s.clock.timer != nil {
		s.clock.timer.Stop()
		s.clock.timer = nil
	}
}

// tick sweeps, as long as there are connections.
func (s *Server) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == 0 {
		s.stopClock()
	}
	if s.clock.timer == nil {
		return
	}
	now := time.Now()
	s.setDate(now)
	s.sweep(now, now.Sub(s.clock.last))
	s.clock.last = now
	s.clock.timer.Reset(s.clock.every)
}

func (s *Server) setDate(now time.Time) {
	second := now.Unix()
	if old := s.clock.stamp.Load(); old != nil && old.second == second {
		return
	}
	date := "Date: " + now.UTC().Format(dateFormat) + "\r\n"
	both := date
	if s.Name != "" {
		both = "Server: " + s.Name + "\r\n" + date
	}
	s.clock.stamp.Store(&stamp{second, date, both, "HTTP/1.1 200 OK\r\n" + both})
}

// sweep ends every wait that is over its time.
func (s *Server) sweep(now time.Time, passed time.Duration) {
	for _, c := range s.conns {
		if c.overdue(now, &s.timeouts) {
			c.interrupt(c.seen.progress)
		}
		if c.bodyOverdue(now, passed, &s.timeouts) {
			c.interruptBody(c.seen.inBody)
		}
	}
}

// A late is which waits were ended from outside: what progress was in a wait to read
// or to write, and inBody in one for a body; 0 is none. A goroutine that finds its wait
// ended looks here whether it was its own. The mutex is held over both, to note it and to set the
// deadline: else one would be lifted that was just set.
type late struct {
	sync.Mutex
	read, write, body uint64
}

// interrupt ends the wait that progress stands for, if the connection is still in it.
func (c *conn) interrupt(progress uint64) {
	c.late.Lock()
	defer c.late.Unlock()
	if c.progress.Load() != progress {
		return
	}
	switch phase(progress & (1<<phaseBits - 1)) {
	case phaseBusy:
	case phaseHandshake:
		c.nc.SetDeadline(past)
	case phaseWrite:
		c.late.write = progress
		c.nc.SetWriteDeadline(past)
	default:
		c.late.read = progress
		c.nc.SetReadDeadline(past)
	}
}

// interruptBody is interrupt for a wait for a body.
func (c *conn) interruptBody(wait uint64) {
	c.late.Lock()
	defer c.late.Unlock()
	if c.inBody.Load() == wait {
		c.late.body = wait
		c.nc.SetReadDeadline(past)
	}
}

// overdue reports whether the wait of a connection must end.
func (c *conn) overdue(now time.Time, t *Timeouts) bool {
	progress := c.progress.Load()
	waits := phase(progress & (1<<phaseBits - 1))
	if progress != c.seen.progress {
		c.seen.progress, c.seen.since = progress, now
	}
	if waits == phaseWrite && c.tookSome() {
		c.seen.since = now
	}
	limit := t.of(waits)
	if limit <= 0 || now.Sub(c.seen.since) < limit {
		return false
	}
	// It may be over, and its handler busy for long: once is enough, and so is once
	// more when as much time has passed again.
	c.seen.since = now
	return true
}

// bodyOverdue looks, passed after the last time, whether a wait for a body must end.
func (c *conn) bodyOverdue(now time.Time, passed time.Duration, t *Timeouts) bool {
	wait := c.inBody.Load()
	if wait != c.seen.inBody {
		c.seen.inBody, c.seen.inBodySince = wait, now
	}
	if wait%2 == 0 {
		return false
	}
	return c.tooSlow(passed, t) || t.Body > 0 && now.Sub(c.seen.inBodySince) >= t.Body
}

// tooSlow adds to the time that was spent waiting for a body and reports whether too
// little of it has come.
func (c *conn) tooSlow(passed time.Duration, t *Timeouts) bool {
	if bodies := c.bodies.Load(); bodies != c.seen.bodies {
		c.seen.bodies, c.seen.waited = bodies, 0
		return false
	}
	c.seen.waited += passed
	enough := float64(t.MinBodyRate) * c.seen.waited.Seconds()
	return t.BodyGrace >= 0 && c.seen.waited > t.BodyGrace && float64(c.received.Load()) < enough
}

// of gives the time for a wait; 0 or less is no limit.
func (t *Timeouts) of(waits phase) time.Duration {
	switch waits {
	case phaseHandshake, phaseFresh, phaseHead:
		return t.Head
	case phaseIdle:
		return t.Idle
	case phaseWrite:
		return t.Write
	case phaseLinger:
		return t.Linger
	}
	return 0
}
