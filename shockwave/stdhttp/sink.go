package stdhttp

import (
	"cmp"
	"errors"
	"net/http"
	"sync"
	"time"

	"titan.test/shockwave"
)

// writeDefault is the default of shockwave.Timeouts.Write.
const writeDefault = 30 * time.Second

// patience is how long a sink waits. The engine is to give up first, so that its handler learns why: it does so at most
// half a second, or half the timeout, behind it.
func patience(t shockwave.Timeouts) time.Duration {
	write := cmp.Or(t.Write, writeDefault)
	return write + min(write/2, time.Second/2)
}

// A sink is where net/http takes a response. The engine's own timeout ends its
// wait for the reader of the response from the connection in memory; that one
// waits here for the client.
//
// A deadline is set only when a wait is over its time: set before each wait, it would lift the one that http.Server's
// WriteTimeout has set.
type sink struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration // of one wait; 0 or less is no limit

	mu    sync.Mutex
	timer *time.Timer // nil before the first wait
	until time.Time   // when the wait is over its time; zero while nobody waits
	cut   bool        // a wait was over its time, and nothing more can be sent
}

func newSink(w http.ResponseWriter, limit time.Duration) *sink {
	return &sink{ResponseWriter: w, control: http.NewResponseController(w), limit: limit}
}

func (s *sink) Write(p []byte) (int, error) {
	s.await()
	n, err := s.ResponseWriter.Write(p)
	return n, s.awaited(err)
}

// Flush has no effect where w cannot flush.
func (s *sink) Flush() error {
	s.await()
	err := s.control.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	return s.awaited(err)
}

// writeInterim sends the head of an interim response.
func (s *sink) writeInterim(status int) error {
	s.await()
	s.WriteHeader(status)
	return s.awaited(nil)
}

// leave bounds what net/http sends behind the handler: the end of the chunked coding, and trailers. In HTTP/1 it lifts
// the deadline itself; in HTTP/2 a stream's wait is the connection's.
func (s *sink) leave(r *http.Request) {
	if s.limit > 0 && r.ProtoMajor == 1 {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.limit))
	}
}

// await begins a wait.
func (s *sink) await() {
	if s.limit <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(s.limit)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.limit, s.expire)
		return
	}
	s.timer.Reset(s.limit)
}

// awaited ends a wait.
func (s *sink) awaited(err error) error {
	if s.limit <= 0 {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	s.timer.Stop()
	if s.cut {
		return shockwave.ErrTimeout
	}
	return err
}

// expire ends the wait if it is still the one that the timer was set for: behind a handler w must not be touched.
func (s *sink) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.IsZero() || time.Now().Before(s.until) {
		return
	}
	s.cut = true
	_ = s.control.SetWriteDeadline(longAgo)
}
