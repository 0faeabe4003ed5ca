//go:build !shockdebug && !race

// The tag and the race detector empty the pools to find misuse.

package shockwave

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// A loop is a connection on which the client sends the same request so many times.
type loop struct {
	tape
	request  string
	at, left int
}

func (l *loop) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, l.request[l.at:])
	if l.at += n; l.at == len(l.request) {
		l.at = 0
		l.left--
	}
	return n, nil
}

func (l *loop) Write(p []byte) (int, error) { return len(p), nil }

// The exchanges for which the engine promises to allocate nothing.
var allocationFree = map[string]struct {
	handler Handler
	request string
}{
	"text":      {func(c *Ctx) { c.SendString("text/plain", "hello") }, get},
	"two-types": {twoTypes, get},
	"fields": {func(c *Ctx) {
		c.SetStatus(404)
		c.Set("Cache-Control", "no-store")
		c.SetBytes("X-Path", c.Path())
		c.AddBytes("X-Path", c.Header("X-Long"))
		c.SendString("application/json", "{}")
	}, "GET /abc HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("v", 500) + "\r\n\r\n"},
	"write":      {func(c *Ctx) { c.WriteString("hello "); c.Write(c.Path()) }, get},
	"json":       {func(c *Ctx) { c.JSON(&document) }, get},
	"chunks-out": {func(c *Ctx) { c.WriteString("a"); c.Flush(); c.WriteString("b") }, get},
	"error":      {func(c *Ctx) { c.Error(404, "") }, get},
	"long":       {func(c *Ctx) { c.SendString("", longText) }, get},
	"body":       {echo, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 25\r\n\r\n" + strings.Repeat("b", 25)},
	"long-body":  {echo, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("b", 200000)},
	"chunks-in": {echo, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks(strings.Repeat("b",
		20000), 900) + "0\r\nT: 1\r\n\r\n"},
	"unread":     {hello, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("b", 20000)},
	"64-fields":  {eachField, "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X-Field: some value of a field\r\n", 63) + "\r\n"},
	"long-value": {eachField, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("v", 12000) + "\r\n\r\n"},
	"look-up": {func(c *Ctx) {
		if c.Method() != "GET" || c.Proto() != "HTTP/1.1" || len(c.Host()) != 1 || len(c.Field(parse.FieldUserAgent)) == 0 ||
			string(c.QueryValue("y")) != "a b" || string(c.Cookie("k")) != "v" {
			panic("not found")
		}
		c.DecodedPath()
	}, "GET /a%20b?x=1&y=a+b HTTP/1.1\r\nHost: a\r\nUser-Agent: me\r\nCookie: a=b; k=v\r\n\r\n"},
}

var document = struct {
	Message string `json:"message"`
	Number  int    `json:"number"`
}{"hello", 42}

var longText = strings.Repeat("0123456789", 10000)

func twoTypes(c *Ctx) {
	if c.Number()%2 == 0 {
		c.SendString("text/plain", "as long.")
		return
	}
	c.SendString("application/json", "{}")
}

func eachField(c *Ctx) {
	n := 0
	for name, value := range c.Fields() {
		n += len(name) + len(value)
	}
	c.SetStatus(200 + n%2)
}

const (
	// loops is how many requests a connection has while allocations are counted.
	loops = 1000
	// ownAllocations is how many may be the connection's own: its start, the Date, emptied pools.
	ownAllocations = 5
)

func TestNoAllocations(t *testing.T) {
	for name, c := range allocationFree {
		t.Run(name, func(t *testing.T) {
			checkAllocations(t, serving(t, c.handler, c.request))
		})
	}
}

// serving returns a function that serves a connection of as many requests as loops.
func serving(t *testing.T, handler Handler, request string) func() {
	s := &Server{Handler: handler}
	t.Cleanup(func() { s.Close() })
	conn := &loop{request: request}
	return func() {
		conn.left = loops
		s.ServeConn(conn)
	}
}

// checkAllocations fails when serve, which is for as many requests as loops, allocates more than a connection may.
func checkAllocations(t *testing.T, serve func()) {
	t.Helper()
	if n := testing.AllocsPerRun(5, serve); n > ownAllocations {
		t.Errorf("%v allocations for %d requests", n, loops)
	}
}

// What allocates seldom must not hide in what is allowed to a connection.
func TestSeldomAllocationsAreNoticed(t *testing.T) {
	for _, every := range []int{1, 3, 10, 100} {
		seldom := func(c *Ctx) {
			if c.Number()%every == 0 {
				escaped = new([64]byte)
			}
		}
		if n := testing.AllocsPerRun(5, serving(t, seldom, get)); n <= ownAllocations {
			t.Errorf("an allocation at each of %d requests counts as %v for %d, and %d are allowed", every, n, loops, ownAllocations)
		}
	}
}

// escaped keeps an allocation from the stack.
var escaped *[64]byte

func TestNoAllocationsTCP(t *testing.T) {
	for name, c := range allocationFree {
		t.Run(name, func(t *testing.T) {
			addr := listening(t, &Server{Handler: c.handler})
			conn, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request := []byte(c.request)
			length := answerLength(t, conn, request)
			answers := make([]byte, length)
			checkAllocations(t, func() {
				for range loops {
					conn.Write(request)
					if _, err := io.ReadFull(conn, answers); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// answerLength says how many bytes the response to a request has.
func answerLength(t *testing.T, conn net.Conn, request []byte) int {
	t.Helper()
	counted := &counter{from: conn}
	p := &peer{t: t, conn: conn, from: bufio.NewReader(counted)}
	p.sends(string(request))
	p.gets()
	return counted.n
}

type counter struct {
	from io.Reader
	n    int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += n
	return n, err
}

func BenchmarkCycle(b *testing.B) {
	for name, c := range allocationFree {
		b.Run(name, func(b *testing.B) {
			s := &Server{Handler: c.handler}
			defer s.Close()
			conn := &loop{request: c.request, left: b.N}
			b.ReportAllocs()
			s.ServeConn(conn)
			b.SetBytes(int64(len(c.request)))
		})
	}
}

// An idle connection owns no buffer: with its client's half, which is in this process
// too, it stays below the bound that stands for the server's half alone.
func TestIdleConnectionIsSmall(t *testing.T) {
	const bound, connections = 8 << 10, 300
	addr := listening(t, &Server{Handler: hello})
	before := memoryInUse()
	clients := make([]net.Conn, connections)
	answer := make([]byte, 1000)
	for i := range clients {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		clients[i] = conn
		io.WriteString(conn, get)
		if _, err := conn.Read(answer); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return memoryInUse() < before+bound*connections })
}

func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
