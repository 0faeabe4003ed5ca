package shockwave

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// A scriptConn is a connection whose peer has sent its bytes in pieces already; each Read gives one. When
// there are no more the peer has closed, or it is silent and the wait for it ends with a timeout.
type scriptConn struct {
	pieces  [][]byte
	close   bool
	handler Handler
	// sent is what the engine wrote, and starved how much of it when it first asked for bytes in vain; -1 before.
	sent    bytes.Buffer
	starved int
	closed  bool
}

func newScript(q question, ends []int) *scriptConn {
	script := &scriptConn{close: q.close, starved: -1}
	start := 0
	for _, end := range append(ends, len(q.input)) {
		if end > start {
			script.pieces = append(script.pieces, q.input[start:end])
			start = end
		}
	}
	return script
}

func (s *scriptConn) Read(b []byte) (int, error) {
	if s.closed {
		return 0, net.ErrClosed
	}
	if len(s.pieces) == 0 {
		if s.starved < 0 {
			s.starved = s.sent.Len()
		}
		if s.close {
			return 0, io.EOF
		}
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

func (s *scriptConn) Write(b []byte) (int, error) {
	if s.closed {
		return 0, net.ErrClosed
	}
	return s.sent.Write(b)
}

func (s *scriptConn) Close() error {
	s.closed = true
	return nil
}

func (s *scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *scriptConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *scriptConn) SetDeadline(time.Time) error      { return nil }
func (s *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (s *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// unread is what the engine has not asked for.
func (s *scriptConn) unread() string { return string(bytes.Join(s.pieces, nil)) }

// judge serves a connection on which the bytes arrive in the pieces that ends delimits, and says what the
// handler saw of the first message and what was answered.
func judge(tb testing.TB, q question, ends []int) verdict {
	tb.Helper()
	w := serve(q, ends, true)
	verdict := w.verdict()
	if fault := w.fault(verdict); fault != "" {
		tb.Errorf("%s\n  input    %q, limits %+v, split at %v\n  verdict  %v (%s)\n  answers  %q",
			fault, q.input, q.limits, ends, verdict, verdict.reason, w.conn.sent.String())
	}
	return verdict
}

// serve serves a connection to its end; reads says whether the handler reads the bodies.
func serve(q question, ends []int, reads bool) *witness {
	w := &witness{conn: newScript(q, ends), reads: reads}
	w.conn.handler = w.handle
	if err := serverWith(q.limits).ServeConn(w.conn); err != nil {
		w.reason = err.Error()
	}
	return w
}

// serveTCP is serve for a socket, on which the client sends everything and then closes its side.
func serveTCP(t *testing.T, q question) *witness {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	// A guard: nothing here waits when all is well.
	client.SetDeadline(time.Now().Add(10 * time.Second))
	socket, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{conn: &scriptConn{starved: -1}, reads: true}
	server := newServer(q.limits)
	server.Handler = w.handle
	served := make(chan error, 1)
	go func() { served <- server.ServeConn(socket) }()
	go func() {
		// It fails when the engine refuses before it has read everything.
		client.Write(q.input)
		client.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(&w.conn.sent, client)
	if err := <-served; err != nil && w.reason == "" {
		w.reason = err.Error()
	}
	return w
}

// A witness is a handler that remembers the messages of a connection.
type witness struct {
	conn     *scriptConn
	reads    bool
	requests []message
	complete int // how many of them were read to their ends
	reason   string
}

func (w *witness) handle(c *Ctx) {
	m := messageHead(c)
	if w.reads {
		body, err := io.ReadAll(c.Body())
		m.body = string(body)
		m.trailers = linesOf(c.Trailers())
		m.rest = string(buffered(c)) + w.conn.unread()
		if err == nil {
			w.complete++
		} else {
			w.reason = err.Error()
		}
	}
	w.requests = append(w.requests, m)
}

func messageHead(c *Ctx) message {
	return message{
		method:  c.Method(),
		target:  string(c.Target()),
		version: c.Proto(),
		expect:  waitsForContinue(c),
		fields:  linesOf(c.Fields()),
	}
}

func linesOf(fields iter.Seq2[[]byte, []byte]) []line {
	var lines []line
	for name, value := range fields {
		lines = append(lines, line{string(name), string(value)})
	}
	return lines
}

func (w *witness) verdict() verdict {
	answers, _ := w.answers(w.conn.sent.Len())
	if w.complete > 0 {
		first := w.requests[0]
		first.persist = len(answers) > 0 && answers[0].persist
		if !first.persist {
			first.rest = ""
		}
		return verdict{outcome: accept, message: first}
	}
	if early, _ := w.answers(max(w.conn.starved, 0)); w.conn.starved >= 0 && len(early) == 0 {
		return verdict{outcome: incomplete, reason: w.reason}
	}
	if len(answers) > 0 {
		return verdict{outcome: reject, status: answers[0].status, reason: w.reason}
	}
	return verdict{outcome: "nothing", reason: w.reason}
}

// fault says what the engine did that does not go with its verdict.
func (w *witness) fault(v verdict) string {
	answers, whole := w.answers(w.conn.sent.Len())
	early, _ := w.answers(max(w.conn.starved, 0))
	isLast := v.outcome == accept && !v.message.persist
	switch {
	case !w.conn.closed:
		return "the connection was left open"
	case !whole:
		return "a response is not well-formed"
	case v.outcome == reject && (len(answers) != 1 || answers[0].persist || answers[0].status < 400):
		return "a reject is one response that closes"
	case v.outcome != accept && len(w.requests) > 1:
		return "something behind a message that is not complete was served"
	case v.outcome == accept && (len(answers) == 0 || answers[0].status != 200):
		return "what was read whole was not answered"
	case isLast && (len(answers) != 1 || len(w.requests) != 1):
		return "something behind the last message was served"
	case !isLast && v.outcome == accept && v.message.rest == "" && len(early) != 1:
		return "the engine waited for the next message before it answered this one"
	}
	return ""
}

// A response is a final response that the engine sent.
type answer struct {
	status  int
	persist bool
}

// answers reads the first bytes of what the engine sent; whole says that complete responses make them up.
func (w *witness) answers(data int) (answers []answer, whole bool) {
	from := bufio.NewReader(bytes.NewReader(w.conn.sent.Bytes()[:data]))
	for {
		var request message
		if len(answers) < len(w.requests) {
			request = w.requests[len(answers)]
		}
		if _, err := from.Peek(1); err != nil {
			return answers, true
		}
		response, err := http.ReadResponse(from, &http.Request{Method: request.method})
		if err != nil {
			return answers, false
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return answers, false
		}
		if response.StatusCode == http.StatusContinue && request.expect {
			continue
		}
		persist := !response.Close
		if request.version == "HTTP/1.0" {
			persist = response.Header.Get("Connection") == "keep-alive"
		}
		answers = append(answers, answer{response.StatusCode, persist})
	}
}

// servers holds one for each set of limits, for their objects to be used again.
var servers sync.Map

func serverWith(limits messageLimits) *Server {
	if server, ok := servers.Load(limits); ok {
		return server.(*Server)
	}
	server := newServer(limits)
	server.Handler = func(c *Ctx) { c.conn.nc.(*scriptConn).handler(c) }
	servers.Store(limits, server)
	return server
}

func newServer(limits messageLimits) *Server {
	body := limits.body
	if body == 0 {
		body = -1 // 0 is the default
	}
	return &Server{Limits: Limits{
		Head:      limits.head,
		Target:    limits.target,
		Fields:    limits.fields,
		ChunkLine: limits.chunkLine,
		Trailers:  limits.trailers,
		Body:      body,
	}}
}

// buffered gives what was received behind the message and is not read yet.
func buffered(c *Ctx) []byte { return c.in[c.r:c.w] }

// waitsForContinue says that the client asked for 100.
func waitsForContinue(c *Ctx) bool { return c.head.ExpectContinue }
