package shockwave

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestShutdownFinishesWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: func(c *Ctx) {
			if string(c.Path()) == "/slow" {
				time.Sleep(time.Minute)
			}
			hello(c)
		}}
		fresh, idle, busy := newPeer(t, s), newPeer(t, s), newPeer(t, s)
		idle.sends(get)
		idle.expects(200, "/")
		busy.sends("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		if n := s.Connections(); n != 3 {
			t.Errorf("%d connections", n)
		}
		start := time.Now()
		ended := make(chan error)
		go func() { ended <- s.Shutdown(context.Background()) }()
		fresh.expectsEnd()
		idle.expectsEnd()
		if time.Since(start) > 0 {
			t.Error("idle connections waited")
		}
		answer, body := busy.getsAnswer()
		if body != "/slow" || !answer.Close {
			t.Errorf("got %q, close %t", body, answer.Close)
		}
		busy.expectsEnd()
		busy.conn.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.ServeConn(&tape{in: strings.NewReader(get)}); err != ErrServerClosed {
			t.Errorf("got %v", err)
		}
	})
}

// A request that is on its way when the server is shut down is served.
func TestShutdownServesAHeadThatHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: hello}
		p := newPeer(t, s)
		p.sends("GET / HT")
		synctest.Wait()
		go s.Shutdown(context.Background())
		synctest.Wait()
		p.sends("TP/1.1\r\nHost: a\r\n\r\n")
		if answer, _ := p.getsAnswer(); answer.StatusCode != 200 || !answer.Close {
			t.Errorf("got %d, close %t", answer.StatusCode, answer.Close)
		}
		p.conn.Close()
		<-p.served
	})
}

// A response that did not know of Shutdown keeps the connection no longer either.
func TestShutdownClosesWhatBecomesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		s := &Server{Handler: func(c *Ctx) {
			hello(c)
			<-release
		}}
		p := newPeer(t, s)
		p.sends(get)
		synctest.Wait()
		go s.Shutdown(context.Background())
		synctest.Wait()
		close(release)
		if answer, _ := p.getsAnswer(); answer.Close {
			t.Error("the response knew")
		}
		p.expectsEnd()
		<-p.served
	})
}

func TestShutdownClosesWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: waits}
		p := newPeer(t, s)
		p.sends(get)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		<-p.served
	})
}

func TestServeAfterCloseServesNothing(t *testing.T) {
	s := &Server{Handler: hello}
	s.Close()
	if err := s.ListenAndServe("127.0.0.1:0"); err != ErrServerClosed {
		t.Errorf("got %v", err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("got %v", err)
	}
}

// A listener that fails for a moment does not end the server.
func TestAcceptIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := &failing{ended: make(chan bool)}
		s := &Server{Handler: hello, ErrorLog: slog.New(slog.DiscardHandler)}
		start := time.Now()
		err := s.Serve(ln)
		if took := time.Since(start); err != io.ErrClosedPipe || ln.calls != 11 || took < 2*time.Second || took > 5*time.Second {
			t.Errorf("%v after %d calls in %v", err, ln.calls, took)
		}
	})
}

// The time of a pause may be over before the pause begins to wait.
func TestPauseEndsThoughItsTimeIsOver(t *testing.T) {
	again := make(chan bool)
	s := &Server{Handler: hello, ErrorLog: slog.New(slog.DiscardHandler)}
	go s.Serve(&busy{server: s, again: again})
	select {
	case <-again:
	case <-time.After(10 * time.Second):
		t.Error("the server accepts no more")
	}
	s.Close()
}

// A busy listener fails once, while another goroutine holds the server's mutex for longer than the pause, and is closed
// then.
type busy struct {
	server *Server
	calls  int
	again  chan bool
}

func (b *busy) Accept() (net.Conn, error) {
	if b.calls++; b.calls > 1 {
		close(b.again)
		return nil, net.ErrClosed
	}
	b.server.mu.Lock()
	time.AfterFunc(50*time.Millisecond, b.server.mu.Unlock)
	return nil, errTooMany{}
}
func (b *busy) Close() error { return nil }
func (*busy) Addr() net.Addr { return &net.TCPAddr{} }

// A failing listener says ten times that descriptors are used up, and then fails.
type failing struct {
	calls int
	ended chan bool
}

func (f *failing) Accept() (net.Conn, error) {
	if f.calls++; f.calls > 10 {
		return nil, io.ErrClosedPipe
	}
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", errTooMany{})}
}
func (f *failing) Close() error { return nil }
func (*failing) Addr() net.Addr { return &net.TCPAddr{} }

type errTooMany struct{}

func (errTooMany) Error() string   { return "too many open files" }
func (errTooMany) Temporary() bool { return true }

func TestPanics(t *testing.T) {
	for name, c := range map[string]struct {
		handler Handler
		want    string
		logged  bool
	}{
		"before-anything-is-sent": {func(c *Ctx) { c.Set("X", "y"); c.WriteString("x"); panic("boom") },
			"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n" +
				"Content-Length: 26\r\nConnection: close\r\n\r\n500 Internal Server Error\n", true},
		"with-a-context": {func(c *Ctx) { c.Context(); panic("boom") },
			"HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\n" +
				"Content-Length: 26\r\nConnection: close\r\n\r\n500 Internal Server Error\n", true},
		"inside-an-answer": {func(c *Ctx) { c.WriteString("x"); c.Flush(); panic("boom") },
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", true},
		"abort":                  {func(c *Ctx) { panic(ErrAbort) }, "", false},
		"abort-keeps-its-answer": {func(c *Ctx) { hello(c); panic(ErrAbort) }, "", false},
		"abort-keeps-the-answers-before": {func(c *Ctx) {
			if c.Send("", nil); c.Number() == 2 {
				panic(ErrAbort)
			}
		}, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := &Server{Handler: c.handler, ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
			if got := play(t, s, get+get); got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
			if logged := strings.Contains(log.String(), "panic=boom") && strings.Contains(log.String(),
				"TestPanics"); logged != c.logged {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

// A handler that ends its goroutine: the responses before are sent.
func TestGoexit(t *testing.T) {
	handler := func(c *Ctx) {
		if hello(c); c.Number() == 2 {
			runtime.Goexit()
		}
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get + get)
		p.expects(200, "/")
		p.expectsEnd()
	})
}

func TestHijack(t *testing.T) {
	ended := make(chan error, 1)
	s := &Server{Handler: func(c *Ctx) {
		if c.Number() == 1 {
			hello(c)
			return
		}
		c.Context()
		conn, buffered, err := c.Hijack()
		if err != nil {
			t.Error(err)
		}
		if _, err := c.WriteString("x"); err != ErrHijacked {
			t.Error(err)
		}
		go func() {
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n"+string(buffered))
			_, err := io.Copy(conn, conn)
			ended <- err
		}()
	}}
	addr := listening(t, s)
	p := dial(t, addr)
	p.sends(get + get + "first ")
	p.expects(200, "/")
	p.sends("second")
	p.conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(p.from); string(got) != "HTTP/1.1 101 Switching Protocols\r\n\r\nfirst second" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A server does not wait for, nor close, what was hijacked.
func TestHijackedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn net.Conn
		var ctx context.Context
		release := make(chan bool)
		s := &Server{Handler: func(c *Ctx) {
			ctx = c.Context()
			conn, _, _ = c.Hijack()
			<-release
		}}
		p := newPeer(t, s)
		p.sends(get)
		synctest.Wait()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		s.Close()
		if ctx.Err() != nil {
			t.Error("the Context ended before the handler")
		}
		close(release)
		<-p.served
		if p.failure != nil || ctx.Err() == nil {
			t.Error(p.failure, ctx.Err())
		}
		go conn.Write([]byte("alive"))
		if got, err := p.from.Peek(5); string(got) != "alive" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestContinue(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
	t.Run("when-the-body-is-read", func(t *testing.T) {
		inBubble(t, &Server{Handler: echo}, func(p *peer) {
			for range 2 {
				p.sends(head)
				if answer, err := p.from.ReadString('\n'); answer != "HTTP/1.1 100 Continue\r\n" {
					t.Fatalf("got %q, %v", answer, err)
				}
				p.from.ReadString('\n')
				p.sends("ab")
				p.expects(200, "ab")
			}
		})
	})
	t.Run("not-when-it-is-there-already", func(t *testing.T) {
		for _, handler := range []Handler{echo, copyBody} {
			if got := play(t, &Server{Handler: handler}, head+"ab"); got != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" {
				t.Errorf("got %q", got)
			}
		}
	})
	t.Run("not-when-it-has-begun", func(t *testing.T) {
		for _, handler := range []Handler{echo, copyBody} {
			conn := &tape{in: io.MultiReader(strings.NewReader(head+"a"), strings.NewReader("b"))}
			(&Server{Handler: handler}).ServeConn(conn)
			if got := undated(conn.out.String()); got != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" {
				t.Errorf("got %q", got)
			}
		}
	})
	t.Run("not-behind-an-answer", func(t *testing.T) {
		for _, c := range []struct {
			begin func(c *Ctx)
			want  string
		}{
			{func(c *Ctx) { c.Flush() }, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
			{func(c *Ctx) { c.Set("Content-Length", "4"); c.WriteString("12") },
				"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n12ab"},
			{func(c *Ctx) { c.SendString("", "final") }, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nfinal"},
		} {
			handler := func(x *Ctx) {
				c.begin(x)
				body, _ := x.ReadBody(-1)
				x.Write(body)
			}
			conn := &tape{in: io.MultiReader(strings.NewReader(head), strings.NewReader("ab"))}
			(&Server{Handler: handler}).ServeConn(conn)
			if got := undated(conn.out.String()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		}
	})
	t.Run("closed-when-it-is-not-read", func(t *testing.T) {
		inBubble(t, &Server{Handler: hello}, func(p *peer) {
			p.sends(head)
			if answer, _ := p.getsAnswer(); !answer.Close {
				t.Error("the connection would go on")
			}
			p.expectsEnd()
		})
	})
}

// A client whose bytes are not read still sees the response (RFC 9112 section 9.6).
func TestResponseIsSeenDespiteUnreadBytes(t *testing.T) {
	addr := listening(t, &Server{Handler: hello, Limits: Limits{Drain: -1, Linger: 64 << 20}})
	for range 20 {
		p := dial(t, addr)
		var sending sync.WaitGroup
		sending.Go(func() {
			io.WriteString(p.conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n"+strings.Repeat("a", 900000))
		})
		p.expects(200, "/")
		sending.Wait()
		p.expectsEnd()
	}
}

// Each connection that ends gives back its goroutines and descriptors.
func TestNothingIsLeft(t *testing.T) {
	goroutines, descriptors := runtime.NumGoroutine(), countDescriptors(t)
	s := &Server{Handler: func(c *Ctx) { c.Context(); echo(c) }}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	for i := range 20 {
		p := dial(t, ln.Addr())
		p.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
		p.expects(200, "ab")
		if i%2 == 0 {
			p.conn.Close()
			continue
		}
		p.sends("GET / HT")
		defer p.conn.Close()
	}
	s.Close()
	<-ended
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines })
	// The client's halves of ten connections are open.
	eventually(t, func() bool { return countDescriptors(t) <= descriptors+10 })
}

// eventually waits for what the runtime or the kernel do in their own time.
func eventually(t *testing.T, true func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !true(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it did not come true")
		}
	}
}

func countDescriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /proc to count descriptors in")
	}
	return len(entries)
}
