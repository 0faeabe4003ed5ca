package shockwave

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// Bytes in, bytes out, without Date.
func TestResponses(t *testing.T) {
	for name, c := range map[string]struct {
		handler Handler
		sent    string
		want    string
	}{
		"get": {hello, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n/x"},
		"head-has-the-fields-alone": {hello, "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n"},
		"an-empty-handler-answers": {func(*Ctx) {}, get,
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"pipelined": {hello, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n/1" +
				"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n/2"},
		"close-when-asked": {hello, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + get,
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: close\r\n\r\n/"},
		"http-1.0-closes": {hello, "GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: close\r\n\r\n/"},
		"http-1.0-keeps-when-asked": {hello, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n/" +
				"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: close\r\n\r\n/"},
		"write-is-measured": {func(c *Ctx) { io.WriteString(c, "ab"); c.Write([]byte("c")) }, get,
			"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"},
		"flush-begins-chunks": {func(c *Ctx) { c.WriteString("ab"); c.Flush(); c.WriteString("c"); c.WriteString("d") }, get,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n"},
		"flush-to-http-1.0-ends-at-the-close": {func(c *Ctx) { c.WriteString("ab"); c.Flush(); c.WriteString("c") },
			"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
			"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc"},
		"flush-of-head": {func(c *Ctx) { c.WriteString("ab"); c.Flush() }, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		"own-length": {func(c *Ctx) { c.Set("Content-Length", "3"); c.WriteString("a"); c.Flush(); c.WriteString("bc") }, get + get,
			strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 2)},
		"own-length-not-reached-closes": {func(c *Ctx) { c.Set("Content-Length", "3"); c.WriteString("a") }, get + get,
			"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na"},
		"own-length-of-head": {func(c *Ctx) { c.Set("Content-Length", "3") }, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get,
			"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"},
		"no-content": {func(c *Ctx) { c.SetStatus(204); c.WriteString("x") }, get,
			"HTTP/1.1 204 No Content\r\n\r\n"},
		"not-modified": {func(c *Ctx) { c.SetStatus(304); c.Send("", []byte("x")) }, get + get,
			strings.Repeat("HTTP/1.1 304 Not Modified\r\n\r\n", 2)},
		"own-length-of-head-sent": {func(c *Ctx) { c.Set("Content-Length", "3"); c.Send("", nil) },
			strings.Repeat("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", 2),
			strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 2)},
		"own-length-of-not-modified": {func(c *Ctx) { c.SetStatus(304); c.Set("Content-Length", "3") }, get + get,
			strings.Repeat("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 2)},
		"own-length-of-not-modified-sent": {func(c *Ctx) { c.SetStatus(304); c.Set("Content-Length", "3"); c.Send("", nil) }, get + get,
			strings.Repeat("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", 2)},
		"reset-content": {func(c *Ctx) { c.SetStatus(205); c.WriteString("x"); c.Flush() }, get + get,
			strings.Repeat("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", 2)},
		"reset-content-sent": {func(c *Ctx) { c.SetStatus(205); c.SendString("", "x") }, get + get,
			strings.Repeat("HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", 2)},
		"error-is-of-another-body": {func(c *Ctx) {
			for _, name := range []string{"content-encoding", "ETag", "Last-Modified", "Cache-Control", "X"} {
				c.Set(name, "1")
			}
			c.Error(500, "no")
		}, get, "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nX: 1\r\n\r\nno\n"},
		"upgrade": {func(c *Ctx) {
			c.SetStatus(426)
			c.Set("Upgrade", "echo")
			c.Set("Connection", "Upgrade")
		}, get + "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n" +
				"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\nConnection: close, upgrade\r\nUpgrade: echo\r\n\r\n"},
		"upgrade-of-ok": {func(c *Ctx) { c.Set("Connection", "close, upgrade"); c.Send("", nil) }, get + get,
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close, upgrade\r\n\r\n"},
		"upgrade-of-http-1.0": {func(c *Ctx) { c.Set("Connection", "upgrade") }, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, upgrade\r\n\r\n"},
		"upgrade-deleted": {func(c *Ctx) { c.Set("Connection", "upgrade"); c.Del("Connection") }, get,
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"unknown-status": {func(c *Ctx) { c.SetStatus(299) }, get,
			"HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n"},
		"fields": {func(c *Ctx) {
			c.Set("X-A", "1")
			c.Add("x-a", "2")
			c.Set("X-B", "3")
			c.Set("X-b", "4")
			c.Add("X-C", "5")
			c.Del("x-c")
			c.SetBytes("X-D", []byte("6"))
			c.AddBytes("X-D", []byte("7"))
			c.Set("content-type", "a/b")
		}, get, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 0\r\nX-A: 1\r\nx-a: 2\r\nX-b: 4\r\nX-D: 6\r\nX-D: 7\r\n\r\n"},
		"own-server-and-no-date": {func(c *Ctx) { c.Del("Date"); c.Set("Server", "s") }, get,
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: s\r\n\r\n"},
		"handler-closes": {func(c *Ctx) { c.Set("Connection", "close") }, get + get,
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		"json": {func(c *Ctx) { c.JSON(map[string]any{"a": []int{1}}) }, get,
			"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"a\":[1]}"},
		"json-that-fails-sends-nothing": {func(c *Ctx) {
			if err := c.JSON(func() {}); err != nil {
				c.Error(500, "bad")
			}
		}, get, "HTTP/1.1 500 Internal Server Error\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 4\r\n\r\nbad\n"},
		"error-takes-back-what-was-written": {func(c *Ctx) { c.WriteString("x"); c.Error(404, "") }, get,
			"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 14\r\n\r\n404 Not Found\n"},
		"redirect": {func(c *Ctx) { c.Redirect(303, "/b") }, get,
			"HTTP/1.1 303 See Other\r\nContent-Length: 0\r\nLocation: /b\r\n\r\n"},
		"stream": {func(c *Ctx) {
			c.Stream("a/b", func(w io.Writer) error {
				fmt.Fprint(w, "ab")
				c.Flush()
				return nil
			})
		}, get, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"stream-that-fails-has-no-end": {func(c *Ctx) {
			c.Stream("", func(w io.Writer) error {
				fmt.Fprint(w, "ab")
				c.Flush()
				return errors.New("x")
			})
		}, get + get, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"},
		"stream-that-fails-before-it-sent": {func(c *Ctx) {
			if c.Stream("", func(w io.Writer) error { fmt.Fprint(w, "ab"); return errors.New("x") }) != nil {
				c.Error(502, "x")
			}
		}, get, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nx\n"},
		"trailers-out": {func(c *Ctx) { c.Trailer("X-Sum", "1"); c.Trailer("X-Sum", "2"); c.WriteString("ab") }, get,
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 2\r\n\r\n"},
		"trailers-behind-send": {func(c *Ctx) { c.Trailer("X-Sum", "1"); c.Send("a/b", []byte("ab")) }, get,
			"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Sum: 1\r\n\r\n"},
		"trailers-not-to-http-1.0": {func(c *Ctx) { c.Trailer("X-Sum", "1"); c.WriteString("ab") }, "GET / HTTP/1.0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab"},
		"early": {func(c *Ctx) { c.Early("Link", "</a>", "Link", "</b>"); hello(c) }, get,
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n" +
				"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n/"},
		"early-not-to-http-1.0": {func(c *Ctx) {
			if c.Early("Link", "</a>") == ErrInterim {
				hello(c)
			}
		}, "GET / HTTP/1.0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\nConnection: close\r\n\r\n/"},
		"connect-has-no-framing": {func(*Ctx) {}, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
			"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
		"echo": {echo, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab" + get,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"echo-of-chunks": {echo,
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n1\r\nb\r\n0\r\nT: 1\r\n\r\n" + get,
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"unread-body-is-no-request": {hello, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 28\r\n\r\n" + get,
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n/"},
		"unread-chunks-are-no-request": {hello, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1c\r\n" +
			get + "\r\n0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n/"},
		"fault-in-unread-chunks-closes": {hello, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n" + get,
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n/"},
		"fault-in-read-chunks": {echo, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n" + get,
			"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 83\r\nConnection: close\r\n\r\n" +
				errChunkSize.Reason + "\n"},
		"fault-in-a-head": {hello, get + "GET / HTTP/1.1\r\n\r\n" + get,
			"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n/" +
				"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 49\r\nConnection: close\r\n\r\n" +
				"the Host field is missing (RFC 9112 section 3.2)\n"},
		"cut-short-in-a-head": {hello, "GET / HT", ""},
		"cut-short-in-a-body": {echo, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
			"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 31\r\nConnection: close\r\n\r\n" +
				"the request body was cut short\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := play(t, &Server{Handler: c.handler}, c.sent); got != c.want {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestServerNamesItself(t *testing.T) {
	want := "HTTP/1.1 200 OK\r\nServer: x/1\r\nContent-Length: 0\r\n\r\nHTTP/1.1 404 Not Found\r\nServer: x/1\r\nContent-Length: 0\r\n\r\n"
	handler := func(c *Ctx) {
		if c.Number() == 2 {
			c.SetStatus(404)
		}
	}
	if got := play(t, &Server{Handler: handler, Name: "x/1"}, get+get); got != want {
		t.Errorf("got %q", got)
	}
}

func TestBadServerNamePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	(&Server{Handler: hello, Name: "a\r\nb"}).Close()
}

func TestOwnDateStandsAlone(t *testing.T) {
	conn := &tape{in: strings.NewReader(get)}
	(&Server{Handler: func(c *Ctx) { c.Set("Date", "x"); c.Add("date", "y") }, Name: "s"}).ServeConn(conn)
	if got := conn.out.String(); got != "HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 0\r\ndate: y\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

// What a handler sets cannot break out of its field.
func TestBadFieldsChangeNothing(t *testing.T) {
	handler := func(c *Ctx) {
		for _, bad := range []error{
			c.Set("X", "a\r\nY: b"), c.Set("X", "a\nb"), c.Set("X", "a\x00b"), c.Set("X", "a\x7f"),
			c.Set("X Y", "a"), c.Set("", "a"), c.Set("X:", "a"), c.Add("X", "\r"), c.SetBytes("X", []byte("\n")),
			c.Send("a/b\r\nX: y", nil), c.Redirect(302, "/\r\nX: y"), c.Trailer("X", "\n"), c.Early("X", "\n"), c.Early("X"),
			c.Set("Content-Length", "-1"), c.Set("Content-Length", "1, 1"), c.Set("Content-Length", ""),
			c.Stream("\r\n", nil),
		} {
			if bad != ErrBadField {
				t.Errorf("got %v", bad)
			}
		}
		for _, reserved := range []error{
			c.Set("Transfer-Encoding", "gzip"), c.Set("Connection", "keep-alive"), c.Add("connection", "upgrade, x"),
			c.Trailer("Content-Length", "1"), c.Trailer("If-Match", "1"),
		} {
			if reserved != ErrReservedField {
				t.Errorf("got %v", reserved)
			}
		}
		for _, status := range []error{c.SetStatus(101), c.SetStatus(600), c.Error(200, ""), c.Redirect(200, "/"),
			c.Interim(101), c.Interim(200)} {
			if status != ErrBadStatus {
				t.Errorf("got %v", status)
			}
		}
	}
	if got := play(t, &Server{Handler: handler}, get); got != "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" {
		t.Errorf("got %q", got)
	}
}

// What comes too late says so.
// A body that was begun and not sent is no head that was sent.
func TestSendBehindWrite(t *testing.T) {
	handler := func(c *Ctx) {
		c.WriteString("begun")
		for name, err := range map[string]error{
			"Send":     c.Send("", []byte("whole")),
			"SendFile": c.SendFile("x"),
			"Stream":   c.Stream("", nil),
		} {
			if err != ErrBodyBegun || c.Sent() {
				t.Errorf("%s: %v, sent %v", name, err, c.Sent())
			}
		}
		if err := c.Error(500, "instead"); err != nil {
			t.Error(err)
		}
	}
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sends(get)
		p.expects(500, "instead\n")
	})
}

func TestNoHandler(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a server without a handler serves")
		}
	}()
	(&Server{}).ServeConn(nil)
}

func TestTooLate(t *testing.T) {
	check := func(got, want error) {
		t.Helper()
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	handler := func(c *Ctx) {
		c.Set("Content-Length", "1")
		_, err := c.WriteString("ab")
		check(err, ErrContentLength)
		check(c.Send("", []byte("ab")), ErrContentLength)
		c.Del("Content-Length")
		check(c.Send("", []byte("ab")), nil)
		_, err = c.WriteString("c")
		check(err, ErrResponseComplete)
		check(c.Set("X", "y"), ErrHeadSent)
		check(c.SetStatus(404), ErrHeadSent)
		check(c.Send("", nil), ErrHeadSent)
		check(c.Error(500, ""), ErrHeadSent)
		check(c.Early(), ErrHeadSent)
		check(c.Trailer("X", "y"), ErrResponseComplete)
		check(c.SendFile("x"), ErrHeadSent)
		check(c.Stream("", nil), ErrHeadSent)
		_, _, err = c.Hijack()
		check(err, ErrHeadSent)
		if !c.Sent() || c.Status() != 200 {
			t.Error("not sent")
		}
		c.Del("X")
	}
	if got := play(t, &Server{Handler: handler}, get); got != "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" {
		t.Errorf("got %q", got)
	}
}

// Large responses take every way through the buffers.
func TestResponsesOfEveryLength(t *testing.T) {
	for _, n := range []int{0, 1, 7000, 7990, 8000, 8100, 8191, 8192, 8193, 16384, 20000, 100000, 300000} {
		want := strings.Repeat("0123456789", n/10+1)[:n]
		for name, handler := range map[string]Handler{
			"send":   func(c *Ctx) { c.SendString("a/b", want) },
			"write":  func(c *Ctx) { c.WriteString(want) },
			"pieces": func(c *Ctx) { writeInPieces(c, want, 1000) },
			"length": func(c *Ctx) { c.Set("Content-Length", fmt.Sprint(n)); writeInPieces(c, want, 5000) },
		} {
			t.Run(fmt.Sprintf("%s-%d", name, n), func(t *testing.T) {
				inBubble(t, &Server{Handler: handler}, func(p *peer) {
					for range 3 {
						p.sends(get)
						p.expects(200, want)
					}
				})
			})
		}
	}
}

func writeInPieces(w io.Writer, data string, size int) {
	for len(data) > 0 {
		n := min(size, len(data))
		io.WriteString(w, data[:n])
		data = data[n:]
	}
}

// Bodies of every length arrive whole, however they come and however they are read.
func TestBodiesOfEveryLength(t *testing.T) {
	for _, n := range []int{0, 1, 2000, 8000, 8192, 9000, 16384, 40000, 200000} {
		want := strings.Repeat("0123456789", n/10+1)[:n]
		long := fmt.Sprintf("POST /%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", strings.Repeat("x", n%7000), n, want)
		chunked := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + inChunks(want, 999) + "0\r\nT: 1\r\n\r\n"
		for name, handler := range map[string]Handler{"whole": echo, "pieces": copyBody} {
			t.Run(fmt.Sprintf("%s-%d", name, n), func(t *testing.T) {
				inBubble(t, &Server{Handler: handler}, func(p *peer) {
					for range 2 {
						p.sendsBeside(long + chunked + get)
						p.expects(200, want)
						p.expects(200, want)
						p.expects(200, "")
					}
				})
			})
		}
	}
}

func copyBody(c *Ctx) {
	path := string(c.Path())
	body, err := io.ReadAll(c.Body())
	if err != nil || string(c.Path()) != path {
		c.Error(500, "the head did not stay")
		return
	}
	c.Send("", body)
}

func inChunks(data string, size int) string {
	var chunks strings.Builder
	for len(data) > 0 {
		n := min(size, len(data))
		fmt.Fprintf(&chunks, "%x\r\n%s\r\n", n, data[:n])
		data = data[n:]
	}
	return chunks.String()
}
