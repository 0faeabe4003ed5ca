package shockwave

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A tape is a connection whose client has sent everything and closed its end.
type tape struct {
	in     io.Reader
	out    bytes.Buffer
	closed bool
}

func (t *tape) Read(p []byte) (int, error)  { return t.in.Read(p) }
func (t *tape) Write(p []byte) (int, error) { return t.out.Write(p) }
func (t *tape) Close() error {
	t.closed = true
	return nil
}
func (*tape) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (*tape) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000} }
func (*tape) SetDeadline(time.Time) error      { return nil }
func (*tape) SetReadDeadline(time.Time) error  { return nil }
func (*tape) SetWriteDeadline(time.Time) error { return nil }

// play serves a connection on which the client sends input and closes its end, and
// gives what the client gets. The Date line is left out.
func play(t *testing.T, s *Server, input string) string {
	t.Helper()
	conn := &tape{in: strings.NewReader(input)}
	s.ServeConn(conn)
	s.Close()
	if !conn.closed {
		t.Error("the connection was left open")
	}
	return undated(conn.out.String())
}

// undated takes the Date lines out.
func undated(answers string) string {
	for {
		before, after, found := strings.Cut(answers, "Date: ")
		if !found {
			return answers
		}
		_, after, _ = strings.Cut(after, "\r\n")
		answers = before + after
	}
}

// A duplex is an end of a connection in memory, of which each direction can be
// closed by itself.
type duplex struct{ from, to net.Conn }

func newDuplex() (client, server *duplex) {
	up, upEnd := net.Pipe()
	down, downEnd := net.Pipe()
	return &duplex{downEnd, up}, &duplex{upEnd, down}
}

func (d *duplex) Read(p []byte) (int, error)  { return d.from.Read(p) }
func (d *duplex) Write(p []byte) (int, error) { return d.to.Write(p) }
func (d *duplex) CloseWrite() error           { return d.to.Close() }
func (d *duplex) Close() error {
	return errors.Join(d.from.Close(), d.to.Close())
}
func (d *duplex) LocalAddr() net.Addr                { return d.from.LocalAddr() }
func (d *duplex) RemoteAddr() net.Addr               { return d.from.RemoteAddr() }
func (d *duplex) SetReadDeadline(t time.Time) error  { return d.from.SetReadDeadline(t) }
func (d *duplex) SetWriteDeadline(t time.Time) error { return d.to.SetWriteDeadline(t) }
func (d *duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.SetReadDeadline(t), d.SetWriteDeadline(t))
}

// A peer is a client: what it sends and gets, step by step.
type peer struct {
	t    *testing.T
	conn net.Conn
	from *bufio.Reader
	// served is closed when the server is done with the connection; failure is then
	// what ServeConn returned.
	served  chan struct{}
	failure error
	// background is what the client does beside the test.
	background sync.WaitGroup
}

// inBubble runs a test in virtual time with a client whose connection s serves.
func inBubble(t *testing.T, s *Server, test func(p *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, s)
		test(p)
		p.conn.Close()
		s.Close()
		<-p.served
		p.background.Wait()
	})
}

func newPeer(t *testing.T, s *Server) *peer {
	client, server := newDuplex()
	p := &peer{t: t, conn: client, from: bufio.NewReader(client), served: make(chan struct{})}
	go func() {
		defer close(p.served)
		p.failure = s.ServeConn(server)
	}()
	return p
}

// dial gives a client of a server on a TCP socket.
func dial(t *testing.T, addr net.Addr) *peer {
	t.Helper()
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &peer{t: t, conn: conn, from: bufio.NewReader(conn)}
}

// listening serves s on a TCP socket until the test ends.
func listening(t *testing.T, s *Server) net.Addr {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != ErrServerClosed {
			t.Errorf("Serve returned %v", err)
		}
	})
	return ln.Addr()
}

func (p *peer) sends(data string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, data); err != nil {
		p.t.Fatalf("sending %.40q: %v", data, err)
	}
}

// sendsBeside sends while the test goes on. It may fail: a server need not take it all.
func (p *peer) sendsBeside(data string) {
	p.background.Go(func() { io.WriteString(p.conn, data) })
}

// gets reads a response and gives its status and body.
func (p *peer) gets() (status int, body string) {
	p.t.Helper()
	answer, body := p.getsAnswer()
	return answer.StatusCode, body
}

func (p *peer) getsAnswer() (*http.Response, string) {
	p.t.Helper()
	answer, err := http.ReadResponse(p.from, nil)
	if err != nil {
		p.t.Fatalf("reading a response: %v", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatalf("reading a response's body: %v", err)
	}
	return answer, string(body)
}

// expects reads a response and compares it.
func (p *peer) expects(status int, body string) {
	p.t.Helper()
	if gotStatus, gotBody := p.gets(); gotStatus != status || gotBody != body {
		p.t.Fatalf("got %d %.200q, want %d %.200q", gotStatus, gotBody, status, body)
	}
}

// expectsEnd says that nothing more comes, and that no timeout was needed for it.
func (p *peer) expectsEnd() {
	p.t.Helper()
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > 10*time.Second {
			p.t.Errorf("the end took %v", took)
		}
	}()
	if rest, err := io.ReadAll(p.from); err != nil || len(rest) > 0 {
		p.t.Fatalf("got %.200q, %v instead of the end", rest, err)
	}
}

// expectsNothing says that for d of virtual time neither a byte nor the end comes.
func (p *peer) expectsNothing(d time.Duration) {
	p.t.Helper()
	p.conn.SetReadDeadline(time.Now().Add(d))
	defer p.conn.SetReadDeadline(never)
	if _, err := p.from.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("got bytes or %v within %v", err, d)
	}
}

// hello answers every request with its path.
func hello(c *Ctx) { c.Send("text/plain", c.Path()) }

// echo responds with the body, or lets the engine answer if there is none to read.
func echo(c *Ctx) {
	if body, err := c.ReadBody(-1); err == nil {
		c.Send("", body)
	}
}
