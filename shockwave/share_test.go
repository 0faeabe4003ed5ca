package shockwave

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A sharing is a handler whose body is read by another goroutine while it writes.
type sharing struct {
	sync.Mutex
	c    *Ctx
	read chan error
	n    int64
}

// share calls handle while all of the body is being read.
func share(handle func(s *sharing)) Handler {
	return func(c *Ctx) {
		s := &sharing{c: c, read: make(chan error, 1)}
		s.Lock()
		defer s.Unlock()
		c.Share(s)
		go func() {
			n, err := io.Copy(io.Discard, s)
			s.n = n
			s.read <- err
		}()
		handle(s)
	}
}

// Read is for the goroutine that does not hold the lock.
func (s *sharing) Read(p []byte) (int, error) {
	s.Lock()
	defer s.Unlock()
	return s.c.Body().Read(p)
}

// ended waits for the reader.
func (s *sharing) ended() error {
	s.Unlock()
	defer s.Lock()
	return <-s.read
}

const post100 = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"

// A client that sends everything before it reads anything, and a handler that writes
// from the start.
func TestReadAndWriteAtOnce(t *testing.T) {
	const size = 200_000
	handler := share(func(s *sharing) {
		for range 10 {
			if _, err := s.c.Write(make([]byte, size/10)); err != nil {
				t.Error(err)
			}
		}
		if err := s.ended(); err != nil || s.n != size {
			t.Error(s.n, err)
		}
	})
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		for range 2 {
			p.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("a", size))
			if status, body := p.gets(); status != 200 || len(body) != size {
				t.Error(status, len(body))
			}
		}
	})
}

// The goroutine that reads the body sends 100 (Continue); a response that begins meanwhile follows that and does
// not come between.
func TestWriteWhileTheReaderSends(t *testing.T) {
	const size = 100_000
	handler := share(func(s *sharing) {
		s.Unlock()
		<-time.After(time.Second) // By now the reader waits for the client to take its 100.
		s.Lock()
		if _, err := s.c.Write(make([]byte, size)); err != nil {
			t.Error(err)
		}
		if err := s.ended(); err != nil {
			t.Error(err)
		}
	})
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		<-time.After(2 * time.Second)
		if status, _ := p.gets(); status != 100 {
			t.Error(status)
		}
		p.sends("hello")
		if status, body := p.gets(); status != 200 || len(body) != size {
			t.Error(status, len(body))
		}
	})
}

// beats writes each second until the reader of the body has ended, and says for how long.
func (s *sharing) beats() (took time.Duration, read error) {
	start := time.Now()
	for {
		s.c.WriteString("beat\n")
		s.c.Flush()
		s.Unlock()
		select {
		case err := <-s.read:
			s.Lock()
			return time.Since(start), err
		case <-time.After(time.Second):
		}
		s.Lock()
	}
}

// What is written beside the wait for a body neither lengthens nor ends it.
func TestBodyTimeoutsBesideWrites(t *testing.T) {
	for name, c := range map[string]struct {
		timeouts Timeouts
		from, to time.Duration
	}{
		"body": {Timeouts{Body: 4 * time.Second, MinBodyRate: -1}, 4 * time.Second, 6 * time.Second},
		"rate": {Timeouts{Body: time.Hour, MinBodyRate: 100, BodyGrace: 8 * time.Second}, 8 * time.Second, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			handler := share(func(s *sharing) {
				if took, err := s.beats(); err != ErrTimeout || took < c.from || took > c.to {
					t.Errorf("%v after %v", err, took)
				}
			})
			inBubble(t, &Server{Handler: handler, Timeouts: c.timeouts}, func(p *peer) {
				p.sends(post100)
				if _, body := p.gets(); !strings.HasPrefix(body, "beat\nbeat\n") {
					t.Errorf("got %q", body)
				}
				p.expectsEnd()
			})
		})
	}
}

// What is read beside a wait to write does not lengthen it.
func TestWriteTimeoutBesideReads(t *testing.T) {
	handler := share(func(s *sharing) {
		start := time.Now()
		_, err := s.c.Write(make([]byte, 100_000))
		if took := time.Since(start); err != ErrTimeout || took < 4*time.Second || took > 7*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		s.c.SetReadDeadline(past)
		s.ended()
	})
	inBubble(t, &Server{Handler: handler, Timeouts: Timeouts{Write: 4 * time.Second, BodyGrace: time.Hour}}, func(p *peer) {
		p.sends(post100)
		p.trickles(strings.Repeat("a", 90), 1, time.Second/10)
		<-p.served
	})
}

func TestPanicWhileShared(t *testing.T) {
	for name, holds := range map[string]bool{"holding": true, "not-holding": false} {
		t.Run(name, func(t *testing.T) {
			handler := func(c *Ctx) {
				var lock sync.Mutex
				lock.Lock()
				c.Share(&lock)
				if !holds {
					lock.Unlock()
				}
				panic("oh")
			}
			inBubble(t, &Server{Handler: handler, ErrorLog: slog.New(slog.DiscardHandler)}, func(p *peer) {
				p.sends(get)
				p.expects(500, "500 Internal Server Error\n")
				p.expectsEnd()
			})
		})
	}
}

// A handler that aborts while it shares: the responses before are sent.
func TestAbortWhileShared(t *testing.T) {
	handler := func(c *Ctx) {
		if hello(c); c.Number() == 2 {
			c.Share(new(sync.Mutex))
			panic(ErrAbort)
		}
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get + get)
		p.expects(200, "/")
		p.expectsEnd()
	})
}

func TestSetReadDeadline(t *testing.T) {
	handler := func(c *Ctx) {
		start := time.Now()
		c.SetReadDeadline(start.Add(time.Minute))
		if string(c.Path()) == "/next" {
			return
		}
		_, err := c.ReadBody(-1)
		if took := time.Since(start); err != ErrTimeout || took != time.Minute {
			t.Errorf("%v after %v", err, took)
		}
		c.SendString("", "late")
	}
	inBubble(t, &Server{Handler: handler, Timeouts: Timeouts{Body: -1, Idle: -1, MinBodyRate: -1}}, func(p *peer) {
		p.sends("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		p.expects(200, "")
		p.expectsNothing(time.Hour)
		p.sends(post100)
		p.expects(200, "late")
		p.expectsEnd()
	})
}

// A deadline that is moved while a goroutine waits for the body.
func TestSetReadDeadlineEndsAWait(t *testing.T) {
	handler := share(func(s *sharing) {
		s.Unlock()
		time.Sleep(time.Second)
		s.Lock()
		start := time.Now()
		s.c.SetReadDeadline(past)
		if err := s.ended(); err != ErrTimeout || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		s.c.SendString("", "late")
	})
	inBubble(t, &Server{Handler: handler, Timeouts: Timeouts{Body: -1, MinBodyRate: -1}}, func(p *peer) {
		p.sends(post100)
		p.expects(200, "late")
	})
}

// The watch for a client that hangs up does not end with the handler's deadline.
func TestContextOutlivesTheReadDeadline(t *testing.T) {
	var cause error
	handler := func(c *Ctx) {
		ctx := c.Context()
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.ReadBody(-1); err != ErrTimeout {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if <-ctx.Done(); true {
			cause = context.Cause(ctx)
		}
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(post100)
		p.expectsNothing(time.Hour)
		p.conn.Close()
		<-p.served
	})
	if cause != ErrClientGone {
		t.Error(cause)
	}
}

// The sweep may end the wait for a request when that has just come: the watch goes on.
func TestContextOutlivesAnotherWait(t *testing.T) {
	var cause error
	handler := func(c *Ctx) {
		ctx := c.Context()
		c.conn.nc.SetReadDeadline(past)
		<-ctx.Done()
		cause = context.Cause(ctx)
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get)
		p.expectsNothing(time.Hour)
		p.conn.Close()
		<-p.served
	})
	if cause != ErrClientGone {
		t.Error(cause)
	}
}

// A deadline for writing holds for what the engine sends behind the handler, but not
// for the responses before, nor for those that follow.
func TestSetWriteDeadline(t *testing.T) {
	deadline := time.Time{}
	handler := func(c *Ctx) {
		if string(c.Path()) == "/late" {
			c.SetWriteDeadline(deadline)
		}
		c.Send("", c.Path())
	}
	s := &Server{Handler: handler}
	const late = "GET /late HTTP/1.1\r\nHost: a\r\n\r\n"
	inBubble(t, s, func(p *peer) {
		deadline = time.Now().Add(time.Minute)
		p.sends(late)
		p.expects(200, "/late")
		time.Sleep(time.Hour / 60)
		p.sends(get)
		p.expects(200, "/")
		deadline = past
		p.sends(get + late)
		p.expects(200, "/")
		p.expectsEnd()
		if <-p.served; p.failure != ErrTimeout {
			t.Error(p.failure)
		}
	})
}

func TestDeadlinesBehindHijack(t *testing.T) {
	handler := func(c *Ctx) {
		c.SetReadDeadline(past)
		conn, _, err := c.Hijack()
		if err != nil || c.SetReadDeadline(past) != ErrHijacked || c.SetWriteDeadline(past) != ErrHijacked {
			t.Error(err)
		}
		io.Copy(conn, io.LimitReader(conn, 4))
		conn.Close()
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get)
		p.sends("ping")
		if got, err := io.ReadAll(p.from); string(got) != "ping" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// What was handed out as buffered is not the body's any more.
func TestBodyBehindHijack(t *testing.T) {
	handler := func(c *Ctx) {
		conn, buffered, _ := c.Hijack()
		_, whole := c.ReadBody(-1)
		_, pieces := c.Body().Read(make([]byte, 10))
		if string(buffered) != "hello" || whole != ErrHijacked || pieces != ErrHijacked {
			t.Errorf("%q, %v, %v", buffered, whole, pieces)
		}
		conn.Close()
	}
	play(t, &Server{Handler: handler}, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
}

// The sweep ends the wait that it judged, not one that has begun since.
func TestSweepEndsWhatItJudged(t *testing.T) {
	var c *conn
	inBubble(t, &Server{Handler: func(x *Ctx) { c = x.conn; hello(x) }}, func(p *peer) {
		p.sends(get)
		p.expects(200, "/")
		synctest.Wait()
		idle := c.progress.Load()
		p.sends(get)
		synctest.Wait() // the response waits for the client
		c.interrupt(idle)
		if c.late.read != 0 {
			t.Error("a wait that was over was ended")
		}
		p.expects(200, "/")
	})
}

// shownConn is a connection that hands on requests that came by TLS.
type shownConn struct{ *tape }

func (shownConn) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{ServerName: "shown"}
}

func TestTLSOfAnotherProtocol(t *testing.T) {
	name := ""
	s := &Server{Handler: func(c *Ctx) { name = c.TLS().ServerName }}
	s.ServeConn(shownConn{&tape{in: strings.NewReader(get)}})
	if s.Close(); name != "shown" {
		t.Errorf("got %q", name)
	}
}
