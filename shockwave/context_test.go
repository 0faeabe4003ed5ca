package shockwave

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// waits responds with why its Context ended.
func waits(c *Ctx) {
	ctx := c.Context()
	<-ctx.Done()
	c.SendString("", context.Cause(ctx).Error())
}

func TestContextEndsWithTheHandler(t *testing.T) {
	var ctx context.Context
	s := &Server{Handler: func(c *Ctx) {
		ctx = c.Context()
		if ctx != c.Context() || ctx.Err() != nil {
			t.Error("another or an ended Context")
		}
		hello(c)
	}}
	inBubble(t, s, func(p *peer) {
		for range 3 {
			p.sends(get)
			p.expects(200, "/")
			if <-ctx.Done(); ctx.Err() != context.Canceled {
				t.Error(ctx.Err())
			}
		}
	})
}

func TestContextHasItsParent(t *testing.T) {
	type key struct{}
	s := &Server{
		Handler:     func(c *Ctx) { c.SendString("", c.Context().Value(key{}).(string)) },
		BaseContext: context.WithValue(context.Background(), key{}, "v"),
	}
	if got := play(t, s, get); !strings.HasSuffix(got, "\r\n\r\nv") {
		t.Errorf("got %q", got)
	}
}

func TestContextDeadline(t *testing.T) {
	s := &Server{Handler: func(c *Ctx) {
		if !c.SetDeadline(time.Now().Add(time.Minute)) {
			t.Error("too late")
		}
		c.Context()
		if c.SetDeadline(never) {
			t.Error("not too late")
		}
		waits(c)
	}}
	inBubble(t, s, func(p *peer) {
		for range 2 {
			start := time.Now()
			p.sends(get)
			p.expects(200, context.DeadlineExceeded.Error())
			if took := time.Since(start); took != time.Minute {
				t.Errorf("took %v", took)
			}
		}
	})
}

// The client hangs up while the handler runs: in memory, where the engine must read
// to find out.
func TestContextEndsWhenTheClientLeaves(t *testing.T) {
	causes := ""
	s := &Server{Handler: func(c *Ctx) {
		ctx := c.Context()
		<-ctx.Done()
		causes += context.Cause(ctx).Error()
	}}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		p.expectsNothing(time.Hour)
		p.conn.(*duplex).CloseWrite()
		<-p.served
	})
	if causes != ErrClientGone.Error() {
		t.Errorf("got %q", causes)
	}
}

// A handler that was busy for longer than any timeout asks for its Context then.
func TestContextOfASlowHandler(t *testing.T) {
	var cause error
	s := &Server{Handler: func(c *Ctx) {
		time.Sleep(time.Hour)
		ctx := c.Context()
		select {
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-time.After(time.Hour):
		}
	}}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		p.expectsNothing(90 * time.Minute)
		p.conn.Close()
		<-p.served
	})
	if cause != ErrClientGone {
		t.Errorf("got %v", cause)
	}
}

// While the engine looks for a hang-up no byte of the next request is lost.
func TestContextLosesNothing(t *testing.T) {
	handler := func(c *Ctx) {
		c.Context()
		time.Sleep(time.Second)
		c.Send("", c.Path())
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
		p.sends("GET /2 HTTP/1.1\r\nHos")
		p.expects(200, "/1")
		p.sends("t: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\nGET /4")
		p.expects(200, "/2")
		p.expects(200, "/3")
		p.sends(" HTTP/1.1\r\nHost: a\r\n\r\n")
		p.expects(200, "/4")
	})
}

// A body can be read while the engine looks for a hang-up.
func TestContextAndBody(t *testing.T) {
	handler := func(c *Ctx) {
		c.Context()
		time.Sleep(time.Second)
		body, err := io.ReadAll(c.Body())
		if err != nil {
			body = []byte(err.Error())
		}
		c.Send("", body)
	}
	want := strings.Repeat("0123456789", 3000)
	for name, sent := range map[string]string{
		"length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n" + want,
		"chunks": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks(want, 700) + "0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &Server{Handler: handler}, func(p *peer) {
				p.trickles(sent+sent, 1234, time.Second/10)
				p.expects(200, want)
				p.expects(200, want)
			})
		})
	}
}

// The watch goes on behind what it received of the body itself.
func TestContextEndsBehindAWatchedBody(t *testing.T) {
	var cause error
	handler := func(c *Ctx) {
		ctx := c.Context()
		time.Sleep(time.Second)
		io.ReadFull(c.Body(), make([]byte, 5))
		<-ctx.Done()
		cause = context.Cause(ctx)
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(post10)
		p.sends("01234")
		p.expectsNothing(time.Hour)
		p.conn.Close()
		<-p.served
	})
	if cause != ErrClientGone {
		t.Errorf("got %v", cause)
	}
}

// A handler that asks for a Context may be about to wait: earlier responses are
// sent.
func TestContextSendsEarlierResponses(t *testing.T) {
	handler := func(c *Ctx) {
		if c.Number() == 2 {
			<-c.Context().Done()
		}
		hello(c)
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get + get)
		p.expects(200, "/")
		p.expectsNothing(time.Hour)
	})
}

func TestContextEndsWhenTheClientLeavesTCP(t *testing.T) {
	ended := make(chan error)
	addr := listening(t, &Server{Handler: func(c *Ctx) {
		ctx := c.Context()
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}})
	for name, sent := range map[string]string{"waiting": get, "pipelining": get + get} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, addr)
			p.sends(sent)
			p.conn.Close()
			if cause := <-ended; cause != ErrClientGone {
				t.Errorf("got %v", cause)
			}
			if name == "pipelining" {
				<-ended
			}
		})
	}
}

func TestContextLosesNothingTCP(t *testing.T) {
	proceed := make(chan bool)
	addr := listening(t, &Server{Handler: func(c *Ctx) {
		c.Context()
		<-proceed
		body, _ := c.ReadBody(-1)
		c.Send("", append(c.Path(), body...))
	}})
	p := dial(t, addr)
	p.sends("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
	proceed <- true
	p.sends("bGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHo")
	p.expects(200, "/1ab")
	proceed <- true
	p.expects(200, "/2")
	p.sends("st: a\r\n\r\n")
	proceed <- true
	p.expects(200, "/3")
}

func TestContextEndsWithTheServer(t *testing.T) {
	begun := make(chan bool)
	ended := make(chan error, 1)
	s := &Server{Handler: func(c *Ctx) {
		ctx := c.Context()
		close(begun)
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}}
	p := dial(t, listening(t, s))
	p.sends(get)
	<-begun
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if cause := <-ended; !errors.Is(cause, ErrServerClosed) {
		t.Errorf("got %v", cause)
	}
}

// Shutdown tells those who ask for it and leaves Contexts alone, until its time is over.
func TestShuttingDown(t *testing.T) {
	var cause error
	handler := func(c *Ctx) {
		ctx := c.Context()
		select {
		case <-c.ShuttingDown():
		case <-ctx.Done():
			t.Error("the Context ended")
		}
		if string(c.Path()) == "/stubborn" {
			<-ctx.Done()
			cause = context.Cause(ctx)
		}
		hello(c)
	}
	s := &Server{Handler: handler}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		synctest.Wait()
		p.background.Go(func() {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		p.expects(200, "/")
		p.expectsEnd()
	})
	s = &Server{Handler: handler}
	inBubble(t, s, func(p *peer) {
		p.sends("GET /stubborn HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Error(err, time.Since(start))
		}
		if <-p.served; cause != ErrServerClosed {
			t.Error(cause)
		}
		select {
		case <-s.ShuttingDown():
		default:
			t.Error("the server does not say that it is shut down")
		}
	})
}
