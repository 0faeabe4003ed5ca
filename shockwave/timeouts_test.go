package shockwave

import (
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// around checks that, counted from now, the connection stands until a timeout and ends at
// most half of it, and two sweeps, behind.
func (p *peer) endsAround(timeout time.Duration) {
	p.t.Helper()
	start := time.Now()
	p.from.Peek(1)
	if took := time.Since(start); took < timeout || took > timeout+timeout/2+time.Second {
		p.t.Fatalf("the wait took %v, its timeout is %v", took, timeout)
	}
}

// trickles sends bytes, size of them at a time, until the connection ends.
func (p *peer) trickles(data string, size int, pause time.Duration) {
	p.background.Go(func() {
		for ; len(data) > 0; data = data[min(size, len(data)):] {
			if _, err := io.WriteString(p.conn, data[:min(size, len(data))]); err != nil {
				return
			}
			time.Sleep(pause)
		}
	})
}

func TestHeadTimeout(t *testing.T) {
	s := &Server{Handler: hello, Timeouts: Timeouts{Head: 3 * time.Second}}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		p.expects(200, "/")
		p.expectsNothing(20 * time.Second)
		p.sends("GET / HT")
		p.endsAround(3 * time.Second)
		p.expects(408, "the request head took too long\n")
		p.expectsEnd()
	})
}

// The time of a head is one time: bytes that trickle in do not lengthen it.
func TestHeadTimeoutCountsFromTheFirstByte(t *testing.T) {
	s := &Server{Handler: hello, Timeouts: Timeouts{Head: 3 * time.Second}}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		p.expects(200, "/")
		start := time.Now()
		p.trickles("GET / HTTP/1.1\r\nHost: abcdefghijklmnopqrstuvwxyz", 1, time.Second/2)
		if status, _ := p.gets(); status != 408 {
			t.Errorf("got %d", status)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestNewConnectionHasTheHeadTimeout(t *testing.T) {
	s := &Server{Handler: hello, Timeouts: Timeouts{Head: 3 * time.Second}}
	inBubble(t, s, func(p *peer) {
		p.endsAround(3 * time.Second)
		p.expectsEnd()
	})
}

func TestIdleTimeout(t *testing.T) {
	s := &Server{Handler: hello, Timeouts: Timeouts{Idle: 20 * time.Second, Head: time.Second}}
	inBubble(t, s, func(p *peer) {
		for range 2 {
			p.sends(get)
			p.expects(200, "/")
			p.expectsNothing(15 * time.Second)
		}
		p.sends(get)
		p.expects(200, "/")
		p.endsAround(20 * time.Second)
		p.expectsEnd()
		<-p.served
		if p.failure != nil {
			t.Errorf("ServeConn returned %v", p.failure)
		}
	})
}

func TestNegativeTimeoutWaitsForEver(t *testing.T) {
	s := &Server{Handler: hello, Timeouts: Timeouts{Idle: -1, Head: -1}}
	inBubble(t, s, func(p *peer) {
		p.expectsNothing(time.Hour)
		p.sends("GET / HT")
		p.expectsNothing(time.Hour)
		p.sends("TP/1.1\r\nHost: a\r\n\r\n")
		p.expects(200, "/")
		p.expectsNothing(time.Hour)
	})
}

// A handler may take its time: no timeout is about it.
func TestSlowHandlerIsNotLate(t *testing.T) {
	handler := func(c *Ctx) {
		time.Sleep(time.Hour)
		hello(c)
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		for range 2 {
			p.sends(get)
			p.expects(200, "/")
		}
	})
}

// A wait that ends at the moment in which the sweep finds it too long: the next one is
// not ended in its place.
func TestTimeoutIsForItsWait(t *testing.T) {
	var c *conn
	handler := func(x *Ctx) {
		c = x.conn
		echo(x)
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get)
		p.expects(200, "")
		synctest.Wait()
		idle := c.progress.Load()
		p.sends(post10)
		synctest.Wait()
		c.late.Lock()
		c.late.read = idle
		c.nc.SetReadDeadline(past)
		c.late.Unlock()
		p.sends("0123456789")
		p.expects(200, "0123456789")
	})
}

const post10 = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"

func TestBodyTimeout(t *testing.T) {
	s := &Server{Handler: echo, Timeouts: Timeouts{Body: 4 * time.Second, MinBodyRate: -1}}
	inBubble(t, s, func(p *peer) {
		p.sends(post10)
		for range 4 {
			p.sends("a")
			p.expectsNothing(3 * time.Second)
		}
		p.endsAround(time.Second)
		p.expects(408, "the request body took too long\n")
		p.expectsEnd()
	})
}

// The handler sees why, and what it answers is sent.
func TestHandlerRespondsToALateBody(t *testing.T) {
	handler := func(c *Ctx) {
		if _, err := io.ReadAll(c.Body()); !errors.Is(err, ErrTimeout) {
			t.Errorf("got %v", err)
		}
		c.Error(503, "mine")
	}
	s := &Server{Handler: handler, Timeouts: Timeouts{Body: time.Second}}
	inBubble(t, s, func(p *peer) {
		p.sends(post10)
		p.expects(503, "mine\n")
		p.expectsEnd()
	})
}

// A body that comes with pauses shorter than Body, but too little of it.
func TestMinBodyRate(t *testing.T) {
	s := &Server{Handler: echo, Timeouts: Timeouts{MinBodyRate: 10, BodyGrace: 6 * time.Second}}
	for name, c := range map[string]struct {
		perSecond, status int
	}{
		"enough":     {20, 200},
		"too-little": {5, 408},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &Server{Handler: s.Handler, Timeouts: s.Timeouts}, func(p *peer) {
				p.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
				start := time.Now()
				p.trickles(strings.Repeat("a", 1000), c.perSecond, time.Second)
				if status, _ := p.gets(); status != c.status {
					t.Errorf("got %d", status)
				}
				if took := time.Since(start); took < 6*time.Second || c.status == 408 && took > 8*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// Only the time in which the handler waits for the body counts.
func TestSlowReaderDoesNotMakeTheClientSlow(t *testing.T) {
	handler := func(c *Ctx) {
		for {
			if _, err := c.Body().Read(make([]byte, 10)); err != nil {
				c.SendString("", err.Error())
				return
			}
			time.Sleep(time.Minute)
		}
	}
	s := &Server{Handler: handler, Timeouts: Timeouts{MinBodyRate: 10, BodyGrace: time.Second}}
	inBubble(t, s, func(p *peer) {
		p.sendsBeside("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("a", 100))
		p.expects(200, "EOF")
	})
}

func TestWriteTimeout(t *testing.T) {
	var failure error
	handler := func(c *Ctx) { failure = c.SendString("", strings.Repeat("a", 100000)) }
	s := &Server{Handler: handler, Timeouts: Timeouts{Write: 5 * time.Second}}
	inBubble(t, s, func(p *peer) {
		start := time.Now()
		p.sends(get)
		<-p.served
		if failure != ErrTimeout {
			t.Errorf("got %v", failure)
		}
		if took := time.Since(start); took < 5*time.Second || took > 8*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A client that takes bytes, however slowly, is not late.
func TestWriteTimeoutIsForPauses(t *testing.T) {
	handler := func(c *Ctx) { c.SendString("", strings.Repeat("a", 1<<20)) }
	s := &Server{Handler: handler, Timeouts: Timeouts{Write: 5 * time.Second}}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		got := 0
		for piece := make([]byte, 60<<10); got < 1<<20; {
			n, err := io.ReadAtLeast(p.from, piece, min(len(piece), 1<<20-got))
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			got += n
			time.Sleep(4 * time.Second)
		}
	})
}

func TestLingerTimeout(t *testing.T) {
	s := &Server{Handler: hello, Timeouts: Timeouts{Linger: 7 * time.Second}}
	inBubble(t, s, func(p *peer) {
		p.sends("GET\r\n")
		if status, _ := p.gets(); status != 400 {
			t.Errorf("got %d", status)
		}
		start := time.Now()
		p.expectsEnd()
		if time.Since(start) > 0 {
			t.Error("the response's end waited for the client's")
		}
		for p.failureNow() == nil {
			if _, err := io.WriteString(p.conn, "more"); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took < 7*time.Second || took > 9*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// failureNow gives how serving ended if it has.
func (p *peer) failureNow() error {
	select {
	case <-p.served:
		return p.failure
	default:
		return nil
	}
}

// A client that connects and says nothing in TLS.
func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newDuplex()
		s := &Server{Handler: hello, Timeouts: Timeouts{Head: 3 * time.Second}}
		start := time.Now()
		err := s.ServeConn(tls.Server(server, &tls.Config{Certificates: []tls.Certificate{{}}}))
		if took := time.Since(start); err != ErrTimeout || took < 3*time.Second || took > 5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		client.Close()
		s.Close()
	})
}

// The Date moves on while the connection lives.
func TestDateIsNow(t *testing.T) {
	inBubble(t, &Server{Handler: hello}, func(p *peer) {
		for range 5 {
			p.sends(get)
			answer, _ := p.getsAnswer()
			date, err := time.Parse(dateFormat, answer.Header.Get("Date"))
			if age := time.Since(date); err != nil || age < 0 || age > 1500*time.Millisecond {
				t.Errorf("%v old, %v", age, err)
			}
			time.Sleep(7300 * time.Millisecond)
		}
	})
}

// A server of which nobody closed anything but the connections leaves nothing that a
// bubble, or a search for leaks, would find.
func TestTheClockIsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: hello}
		for range 2 {
			p := newPeer(t, s)
			p.sends(get)
			p.expects(200, "/")
			p.conn.Close()
			<-p.served
			time.Sleep(time.Second)
			if s.mu.Lock(); s.clock.timer != nil {
				t.Error("the clock runs without connections")
			}
			s.mu.Unlock()
		}
		newPeer(t, s).conn.Close()
	})
}
