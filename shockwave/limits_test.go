package shockwave

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A request just inside a limit is served, one byte or line more is refused.
func TestLimitsOfRequests(t *testing.T) {
	request := func(fields, body string) string {
		return "POST /x HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body
	}
	chunked := "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct {
		limits          Limits
		inside, outside string
		status          string
	}{
		"head":   {Limits{Head: 40}, request("X: 123456\r\n", ""), request("X: 1234567\r\n", ""), "431"},
		"target": {Limits{Target: 3}, "GET /ab HTTP/1.1\r\nHost: a\r\n\r\n", "GET /abc HTTP/1.1\r\nHost: a\r\n\r\n", "414"},
		"fields": {Limits{Fields: 2}, request("A: 1\r\n", ""), request("A: 1\r\nB: 1\r\n", ""), "431"},
		"body":   {Limits{Body: 3}, request("Content-Length: 3\r\n", "abc"), request("Content-Length: 4\r\n", "abcd"), "413"},
		"chunked-body": {Limits{Body: 3}, request(chunked, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"), request(chunked,
			"2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"), "413"},
		"no-body":         {Limits{Body: -1}, request("Content-Length: 0\r\n", ""), request("Content-Length: 1\r\n", "a"), "413"},
		"no-chunked-body": {Limits{Body: -1}, request(chunked, "0\r\n\r\n"), request(chunked, "1\r\na\r\n0\r\n\r\n"), "413"},
		"chunk-line": {Limits{ChunkLine: 5}, request(chunked, "1;abc\r\na\r\n0\r\n\r\n"), request(chunked,
			"1;abcd\r\na\r\n0\r\n\r\n"), "400"},
		"trailers": {Limits{Trailers: 8}, request(chunked, "0\r\nA: 1\r\n\r\n"), request(chunked, "0\r\nA: 12\r\n\r\n"), "431"},
		"trailer-lines": {Limits{Fields: 2}, request(chunked, "0\r\nA: 1\r\nB: 1\r\n\r\n"), request(chunked,
			"0\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n"), "431"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := play(t, &Server{Handler: echo, Limits: c.limits}, c.inside); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("inside: %q", got)
			}
			got := play(t, &Server{Handler: echo, Limits: c.limits}, c.outside)
			if !strings.HasPrefix(got, "HTTP/1.1 "+c.status+" ") || !strings.Contains(got, "\r\nConnection: close\r\n") {
				t.Errorf("outside: %q", got)
			}
		})
	}
}

// A long head needs more than one buffer.
func TestLongHeads(t *testing.T) {
	s := &Server{Handler: func(c *Ctx) { c.Send("", c.Header("x-last")) }, Limits: Limits{Head: 1 << 20, Fields: 1000}}
	inBubble(t, s, func(p *peer) {
		for _, fields := range []int{1, 64, 500, 2, 900} {
			p.sendsBeside("GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+strings.Repeat("v", 1000)+"\r\n", fields) +
				"X-Last: end\r\n\r\n")
			p.expects(200, "end")
		}
	})
}

func TestReadBodyLimit(t *testing.T) {
	for name, body := range map[string]string{
		"length": "Content-Length: 4\r\n\r\nabcd",
		"chunks": "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for max, want := range map[int64]error{4: nil, -1: nil, 3: ErrBodyTooLong, 0: ErrBodyTooLong} {
				handler := func(c *Ctx) {
					if _, err := c.ReadBody(max); err != want {
						t.Errorf("max %d: got %v", max, err)
					}
				}
				got := play(t, &Server{Handler: handler}, "POST / HTTP/1.1\r\nHost: a\r\n"+body)
				if status := map[bool]string{true: "200", false: "413"}[want == nil]; !strings.HasPrefix(got, "HTTP/1.1 "+status) {
					t.Errorf("max %d: %q", max, got)
				}
			}
		})
	}
}

func TestRequestsPerConnection(t *testing.T) {
	s := &Server{Handler: hello, Limits: Limits{RequestsPerConnection: 2}}
	inBubble(t, s, func(p *peer) {
		p.sends(get)
		p.expects(200, "/")
		p.sends(get)
		if answer, _ := p.getsAnswer(); !answer.Close {
			t.Error("the last response does not say close")
		}
		p.expectsEnd()
	})
}

// As many connections as Limits.Connections are served; another waits until one ends.
func TestConnectionsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: hello, Limits: Limits{Connections: 2}, Timeouts: Timeouts{Head: -1, Idle: -1}}
		ln := &queue{conns: make(chan net.Conn, 3), closed: make(chan bool)}
		var clients [3]*duplex
		for i := range clients {
			client, server := newDuplex()
			clients[i] = client
			ln.conns <- server
		}
		go s.Serve(ln)
		synctest.Wait()
		if n := s.Connections(); n != 2 || len(ln.conns) != 1 {
			t.Errorf("%d connections are served, %d wait", n, len(ln.conns))
		}
		clients[0].Close()
		synctest.Wait()
		if n := s.Connections(); n != 2 || len(ln.conns) != 0 {
			t.Errorf("%d connections are served, %d wait", n, len(ln.conns))
		}
		s.Close()
		synctest.Wait()
	})
}

// A queue is a listener of connections that are there already.
type queue struct {
	conns  chan net.Conn
	closed chan bool
	once   sync.Once
}

func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

func (*queue) Addr() net.Addr { return &net.TCPAddr{} }

// What a handler leaves unread is read away up to Drain; then the connection ends.
func TestDrain(t *testing.T) {
	request := func(n int) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("a", n))
	}
	for name, c := range map[string]struct {
		drain int64
		sent  string
		goes  bool
	}{
		"inside":  {1000, request(1000), true},
		"outside": {1000, request(1001), false},
		"none":    {-1, request(1), false},
		"chunks-inside": {1100, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			inChunks(strings.Repeat("a", 1000), 100) + "0\r\n\r\n", true},
		"chunks-outside": {1000, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			inChunks(strings.Repeat("a", 9000), 100) + "0\r\n\r\n", false},
		"framing-counts": {1000, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1;"+strings.Repeat("e", 98)+"\r\na\r\n", 100) + "0\r\n\r\n", false},
		"framing-counts-of-all-pieces": {20000, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1;"+strings.Repeat("e", 98)+"\r\na\r\n", 600) + "0\r\n\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Handler: hello, Limits: Limits{Drain: c.drain}}
			inBubble(t, s, func(p *peer) {
				p.sendsBeside(c.sent)
				p.expects(200, "/")
				if !c.goes {
					p.expectsEnd()
					return
				}
				p.sends("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
				p.expects(200, "/next")
			})
		})
	}
}

// Behind a response that ends the connection up to Linger bytes are read away.
func TestLingerLimit(t *testing.T) {
	for linger, want := range map[int64]int{1000: 1000, -1: 0} {
		s := &Server{Handler: hello, Limits: Limits{Linger: linger}}
		inBubble(t, s, func(p *peer) {
			p.sends("GET\r\n")
			p.gets()
			sent := 0
			for {
				if _, err := io.WriteString(p.conn, strings.Repeat("a", 100)); err != nil {
					break
				}
				sent += 100
			}
			if sent != want {
				t.Errorf("linger %d: took %d bytes", linger, sent)
			}
			<-p.served
		})
	}
}

func TestResponseBuffer(t *testing.T) {
	handler := func(c *Ctx) { writeInPieces(c, strings.Repeat("a", 100), 10) }
	for limit, want := range map[int]string{100: "Content-Length: 100", 99: "Transfer-Encoding: chunked"} {
		if got := play(t, &Server{Handler: handler, Limits: Limits{ResponseBuffer: limit}}, get); !strings.Contains(got, want) {
			t.Errorf("%d: %q", limit, got)
		}
	}
}

func TestResponseFields(t *testing.T) {
	handler := func(c *Ctx) {
		if err := c.Add("X", "12345"); err != nil {
			t.Error(err)
		}
		if err := c.Add("Y", ""); !errors.Is(err, ErrFieldsTooLong) {
			t.Error(err)
		}
		if err := c.Set("X", "54321"); err != nil {
			t.Error(err)
		}
		if err := c.Trailer("X", "123456"); !errors.Is(err, ErrFieldsTooLong) {
			t.Error(err)
		}
	}
	s := &Server{Handler: handler, Limits: Limits{ResponseFields: 10}}
	if got := play(t, s, get); got != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: 54321\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

// Zero, and what is less than the least that a limit can be, is the default.
func TestDefaultLimits(t *testing.T) {
	none := Limits{}.orDefault()
	negative := Limits{Head: -1, Target: -1, Fields: -1, ChunkLine: -1, Trailers: -1, Connections: -1,
		RequestsPerConnection: -1, ResponseBuffer: -1, ResponseFields: -1}
	if got := negative.orDefault(); got != none {
		t.Errorf("got %+v, want %+v", got, none)
	}
	if got := (Limits{Body: -2, Drain: -2, Linger: -2}).orDefault(); got.Body != -1 || got.Drain >= 0 || got.Linger >= 0 {
		t.Errorf("a meaning is lost: %+v", got)
	}
}
