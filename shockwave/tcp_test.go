package shockwave

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// On TCP sockets the engine reads and writes by itself: the ways that only they take.

func TestShutdownTCP(t *testing.T) {
	s := &Server{Handler: hello}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	p, fresh := dial(t, ln.Addr()), dial(t, ln.Addr())
	p.sends(get)
	p.expects(200, "/")
	eventually(t, func() bool { return s.Connections() == 2 })
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	p.expectsEnd()
	fresh.expectsEnd()
	if err := <-ended; err != ErrServerClosed {
		t.Errorf("got %v", err)
	}
}

func TestTimeoutsTCP(t *testing.T) {
	serving := func(t *testing.T, timeouts Timeouts) *peer {
		return dial(t, listening(t, &Server{Handler: echo, Timeouts: timeouts}))
	}
	const short = 30 * time.Millisecond
	t.Run("fresh", func(t *testing.T) {
		serving(t, Timeouts{Head: short}).expectsEnd()
	})
	t.Run("idle", func(t *testing.T) {
		p := serving(t, Timeouts{Idle: short})
		p.sends(get)
		p.expects(200, "")
		p.expectsEnd()
	})
	t.Run("head", func(t *testing.T) {
		// Long enough for the first bytes to come in time on a busy machine.
		p := serving(t, Timeouts{Head: time.Second})
		p.sends("GET / HT")
		p.expects(408, "the request head took too long\n")
		p.expectsEnd()
	})
	t.Run("body", func(t *testing.T) {
		p := serving(t, Timeouts{Body: short})
		p.sends(post10)
		p.expects(408, "the request body took too long\n")
		p.expectsEnd()
	})
	t.Run("write", func(t *testing.T) {
		written := make(chan error, 1)
		handler := func(c *Ctx) { written <- c.SendString("", strings.Repeat("a", 64<<20)) }
		p := dial(t, listening(t, &Server{Handler: handler, Timeouts: Timeouts{Write: short}}))
		p.sends(get)
		if err := <-written; err != ErrTimeout {
			t.Errorf("got %v", err)
		}
	})
}

// The client takes a long answer in its own time: the socket fills up again and again.
func TestLongResponseTCP(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	addr := listening(t, &Server{Handler: func(c *Ctx) { c.Send("", want) }})
	p := dial(t, addr)
	for range 2 {
		p.sends(get)
		if _, body := p.gets(); body != string(want) {
			t.Fatalf("got %d bytes", len(body))
		}
	}
}

func TestBodiesTCP(t *testing.T) {
	for name, handler := range map[string]Handler{"whole": echo, "pieces": copyBody} {
		t.Run(name, func(t *testing.T) {
			p := dial(t, listening(t, &Server{Handler: handler}))
			for _, n := range []int{0, 100, 9000, 500000} {
				want := strings.Repeat("x", n)
				go io.WriteString(p.conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, want)+
					"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+inChunks(want, 3000)+"0\r\n\r\n")
				p.expects(200, want)
				p.expects(200, want)
			}
		})
	}
}

func TestSendFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, data string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		modified := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
		if err := os.Chtimes(path, modified, modified); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("small.txt", "0123456789")
	write("empty.bin", "")
	long := strings.Repeat("0123456789", 100000)
	write("long.html", long)
	handler := func(c *Ctx) {
		if c.Header("Test-Missing") != nil {
			c.SetStatus(404)
		}
		if length := c.Header("Test-Length"); length != nil {
			c.SetBytes("Content-Length", length)
		}
		if err := c.SendFile(filepath.Join(folder, string(c.Path()))); err != nil {
			c.Error(404, "")
		}
	}
	const (
		modified = "Fri, 02 Jan 2026 03:04:05 GMT"
		plain    = "text/plain; charset=utf-8"
	)
	type want struct {
		status                      int
		body, contentType, itsRange string
	}
	rows := map[string]struct {
		request string
		want    want
	}{
		"small":                   {"GET /small.txt", want{200, "0123456789", plain, ""}},
		"long":                    {"GET /long.html", want{200, long, "text/html; charset=utf-8", ""}},
		"empty":                   {"GET /empty.bin", want{200, "", "application/octet-stream", ""}},
		"missing":                 {"GET /missing", want{404, "404 Not Found\n", plain, ""}},
		"folder":                  {"GET /", want{404, "404 Not Found\n", plain, ""}},
		"not-modified":            {"GET /small.txt\r\nIf-Modified-Since: " + modified, want{304, "", plain, ""}},
		"not-modified-own-length": {"GET /small.txt\r\nTest-Length: 10\r\nIf-Modified-Since: " + modified, want{304, "", plain, ""}},
		"range-outside-own-length": {"GET /small.txt\r\nTest-Length: 10\r\nRange: bytes=10-", want{416, "", plain,
			"bytes */10"}},
		"not-modified-of-404": {"GET /small.txt\r\nTest-Missing: 1\r\nIf-Modified-Since: " + modified, want{404,
			"0123456789", plain, ""}},
		"range-of-404": {"GET /small.txt\r\nTest-Missing: 1\r\nRange: bytes=1-2", want{404, "0123456789", plain, ""}},
		"modified": {"GET /small.txt\r\nIf-Modified-Since: Fri, 02 Jan 2026 03:04:04 GMT", want{200, "0123456789",
			plain, ""}},
		"none-match-is-void": {"GET /small.txt\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: " + modified, want{200,
			"0123456789", plain, ""}},
		"range":              {"GET /small.txt\r\nRange: bytes=2-4", want{206, "234", plain, "bytes 2-4/10"}},
		"range-to-the-end":   {"GET /small.txt\r\nRange: bytes=7-", want{206, "789", plain, "bytes 7-9/10"}},
		"range-beyond":       {"GET /small.txt\r\nRange: bytes=7-99999999999999999999", want{206, "789", plain, "bytes 7-9/10"}},
		"range-of-the-tail":  {"GET /small.txt\r\nRange: bytes=-3", want{206, "789", plain, "bytes 7-9/10"}},
		"range-long-tail":    {"GET /small.txt\r\nRange: bytes=-99", want{206, "0123456789", plain, "bytes 0-9/10"}},
		"range-outside":      {"GET /small.txt\r\nRange: bytes=10-", want{416, "", plain, "bytes */10"}},
		"range-of-nothing":   {"GET /small.txt\r\nRange: bytes=-0", want{416, "", plain, "bytes */10"}},
		"range-of-empty":     {"GET /empty.bin\r\nRange: bytes=0-", want{416, "", "application/octet-stream", "bytes */0"}},
		"ranges-are-ignored": {"GET /small.txt\r\nRange: bytes=1-2,4-5", want{200, "0123456789", plain, ""}},
		"range-backwards":    {"GET /small.txt\r\nRange: bytes=4-2", want{200, "0123456789", plain, ""}},
		"range-of-lines":     {"GET /small.txt\r\nRange: lines=1-2", want{200, "0123456789", plain, ""}},
		"range-of-a-post":    {"POST /small.txt\r\nRange: bytes=1-2", want{200, "0123456789", plain, ""}},
		"if-range-holds":     {"GET /small.txt\r\nRange: bytes=1-2\r\nIf-Range: " + modified, want{206, "12", plain, "bytes 1-2/10"}},
		"if-range-does-not":  {"GET /small.txt\r\nRange: bytes=1-2\r\nIf-Range: \"x\"", want{200, "0123456789", plain, ""}},
		"range-of-long": {"GET /long.html\r\nRange: bytes=10-899999", want{206, long[10:900000],
			"text/html; charset=utf-8", "bytes 10-899999/1000000"}},
	}
	addr := listening(t, &Server{Handler: handler})
	secure := listeningTLS(t, &Server{Handler: handler})
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			first, fields, _ := strings.Cut(c.request+"\r\n", "\r\n")
			for _, p := range []*peer{dial(t, addr), first2(dialTLS(t, secure))} {
				p.sends(first + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + get)
				answer, body := p.getsAnswer()
				got := want{answer.StatusCode, body, answer.Header.Get("Content-Type"), answer.Header.Get("Content-Range")}
				if got != c.want {
					t.Errorf("got %d %.20q %q %q, want %d %.20q %q %q", got.status, got.body, got.contentType, got.itsRange,
						c.want.status, c.want.body, c.want.contentType, c.want.itsRange)
				}
				if since := answer.Header.Get("Last-Modified"); since != modified && body != "404 Not Found\n" {
					t.Errorf("Last-Modified: %q", since)
				}
				p.expects(404, "404 Not Found\n")
			}
		})
	}
	t.Run("head", func(t *testing.T) {
		got := play(t, &Server{Handler: handler}, "HEAD /long.html HTTP/1.1\r\nHost: a\r\n\r\n")
		if got != "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"+
			"Content-Length: 1000000\r\nLast-Modified: "+modified+"\r\nAccept-Ranges: bytes\r\n\r\n" {
			t.Errorf("got %q", got)
		}
	})
}

func first2[T, U any](first T, _ U) T { return first }
