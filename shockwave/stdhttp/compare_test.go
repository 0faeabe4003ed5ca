package stdhttp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"titan.test/shockwave"
)

// A seen is what a client saw of one response.
type seen struct {
	status   int
	length   int64
	chunked  bool
	close    bool
	fields   string
	body     string
	trailers string
	ended    bool // the body came whole
	again    bool // the connection answered once more
}

func (s seen) String() string {
	body := s.body
	if len(body) > 200 {
		body = fmt.Sprintf("%s... (%d bytes)", body[:200], len(body))
	}
	return fmt.Sprintf("status %d length %d chunked %t close %t whole %t again %t\n%s\n%q\n%s", s.status, s.length, s.chunked,
		s.close, s.ended, s.again, s.fields, body, s.trailers)
}

// A peerConn is a client that writes bytes and reads answers, and fails instead of waiting for ever.
type peerConn struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, address string) *peerConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return &peerConn{t, c, bufio.NewReader(c)}
}

func (p *peerConn) sends(data string) {
	p.t.Helper()
	if _, err := io.WriteString(p, data); err != nil {
		p.t.Fatal(err)
	}
}

// answer reads one response, interim ones too, to the end of its body.
func (p *peerConn) answer(method string) (seen, error) {
	response, err := http.ReadResponse(p.r, &http.Request{Method: method})
	if err != nil {
		return seen{}, err
	}
	s := seen{
		status:  response.StatusCode,
		length:  response.ContentLength,
		chunked: slices.Contains(response.TransferEncoding, "chunked"),
		close:   response.Close,
	}
	if response.StatusCode >= 200 {
		body, err := io.ReadAll(response.Body)
		s.body, s.ended = string(body), err == nil
	}
	response.Header.Del("Date")
	s.fields, s.trailers = list(response.Header), list(response.Trailer)
	return s, nil
}

func list(fields http.Header) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, value := range fields[name] {
			lines = append(lines, name+": "+value)
		}
	}
	return strings.Join(lines, "\n")
}

// both starts h under net/http and on Shockwave and gives the addresses.
func both(t *testing.T, h http.Handler) map[string]string {
	reference := httptest.NewUnstartedServer(h)
	reference.Config.ErrorLog = quiet()
	reference.Start()
	t.Cleanup(reference.Close)
	ours := Start(&shockwave.Server{Handler: Handler(h), ErrorLog: quietLog()})
	t.Cleanup(ours.Close)
	return map[string]string{
		"net/http":  reference.Listener.Addr().String(),
		"shockwave": strings.TrimPrefix(ours.URL, "http://"),
	}
}

const (
	get  = "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n"
	head = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"
	old  = "GET / HTTP/1.0\r\n\r\n"
)

func post(body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// TestCompare sends the same bytes to the same handler under net/http and on Shockwave. What the client sees must be
// the same, but for a row that names the difference: its reason, and what Shockwave does.
func TestCompare(t *testing.T) {
	write := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	large := strings.Repeat("0123456789abcdef", 64<<10)
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %v %q", r.ContentLength, r.TransferEncoding, err, body)
	}
	rows := []struct {
		name    string
		handler http.HandlerFunc
		request string
		method  string // HEAD, where it matters
		// reason says why differ changes what net/http answers into what Shockwave does.
		reason string
		differ func(*seen)
	}{
		{name: "empty response", handler: func(http.ResponseWriter, *http.Request) {}, request: get},
		{name: "short response", handler: write("hello"), request: get},
		{name: "html is guessed", handler: write("<!DOCTYPE html><p>x"), request: get},
		{name: "html in two writes is guessed", handler: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "<!DOCTYPE h")
			io.WriteString(w, "tml><p>x")
		}, request: get},
		{name: "binary is guessed", handler: write("\x89PNG\x0D\x0A\x1A\x0A"), request: get},
		{name: "type is kept", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			io.WriteString(w, "<html>")
		}, request: get},
		{name: "nil type is none", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "<html>")
		}, request: get},
		{name: "no type with an encoding", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "x")
		}, request: get},
		{name: "answer of 2 KiB", handler: write(large[:2048]), request: get},
		{
			name: "answer of 4 KiB", handler: write(large[:4096]), request: get,
			reason: "Shockwave keeps more before it has to say the length",
			differ: func(s *seen) {
				s.length, s.chunked = 4096, false
				s.fields = "Content-Length: 4096\n" + s.fields
			},
		},
		{name: "large response", handler: write(large), request: get},
		{name: "large response with its length", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			io.WriteString(w, large)
		}, request: get},
		{name: "flush makes it chunked", handler: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			io.WriteString(w, "b")
		}, request: get},
		{name: "flush of nothing", handler: func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, request: get},
		{name: "too long for its length", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			if _, err := io.WriteString(w, "abc"); err != nil {
				panic(err)
			}
			if _, err := io.WriteString(w, "d"); !errors.Is(err, http.ErrContentLength) {
				panic(err)
			}
		}, request: get,
			reason: "nothing of what is too long was sent, so the connection is still good",
			differ: func(s *seen) { s.again = true }},
		{name: "too short for its length", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "30")
			io.WriteString(w, "abc")
		}, request: get},
		{name: "malformed length is left out", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "x")
			io.WriteString(w, "abc")
		}, request: get,
			reason: "Shockwave then counts by itself",
			differ: func(s *seen) { s.length, s.chunked, s.fields = 3, false, "Content-Length: 3\n"+s.fields }},
		{name: "status", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			io.WriteString(w, "x")
		}, request: get},
		{name: "204", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic(err)
			}
		}, request: get},
		{name: "304", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		}, request: get},
		{name: "second WriteHeader", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot)
		}, request: get},
		{name: "fields behind WriteHeader", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("A", "1")
			w.WriteHeader(http.StatusOK)
			w.Header().Set("A", "2")
			w.Header().Set("B", "2")
		}, request: get},
		{name: "many lines of one field", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
			w.Header()["X-A"] = []string{"1", "2", "3"}
		}, request: get},
		{name: "line ends in a value", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-A", "a\r\nX-B: b\r\n\r\nbody")
			w.Header().Set("X-C", "  c ")
		}, request: get},
		{name: "invalid name is left out", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X A"] = []string{"1"}
			w.Header()["X\r\nB"] = []string{"1"}
		}, request: get},
		{name: "connection close", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			io.WriteString(w, "x")
		}, request: get},
		{name: "upgrade required", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "h2c")
			w.WriteHeader(http.StatusUpgradeRequired)
		}, request: get, reason: "Shockwave writes the option in small letters", differ: func(s *seen) {
			s.fields = strings.Replace(s.fields, "Connection: Upgrade", "Connection: upgrade", 1)
		}},
		{name: "one option of Connection is close", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade, close")
			io.WriteString(w, "x")
		}, request: get, reason: "Shockwave writes its own list", differ: func(s *seen) {
			s.fields = strings.Replace(s.fields, "Connection: Upgrade, close", "Connection: close, upgrade", 1)
		}},
		{name: "client closes", handler: write("x"), request: "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"},
		{name: "head", handler: write("hello"), request: head, method: "HEAD"},
		{name: "head with a length", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "123")
		}, request: head, method: "HEAD"},
		{
			name: "empty head", handler: func(http.ResponseWriter, *http.Request) {}, request: head, method: "HEAD",
			reason: "Shockwave answers HEAD with the length that GET has",
			differ: func(s *seen) { s.length, s.fields = 0, "Content-Length: 0" },
		},
		{name: "announced trailers", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-None")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "1")
		}, request: get},
		{name: "prefixed trailers", handler: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
		}, request: get},
		{name: "HTTP/1.0", handler: write("hello"), request: old},
		{name: "trailer announced without chunks", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Header, r.Trailer)
		}, request: "GET / HTTP/1.1\r\nHost: h\r\nTrailer: X-A\r\n\r\n"},
		{name: "two lines announce trailers", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.Trailer)
			io.Copy(w, r.Body)
			fmt.Fprintln(w, r.Trailer)
		}, request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\nTrailer: X-B, X-C\r\n\r\n" +
			"0\r\nX-B: 1\r\n\r\n"},
		{name: "HTTP/1.0 keep-alive", handler: write("hello"), request: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"},
		{name: "HTTP/1.0 large", handler: write(large), request: old},
		{name: "body", handler: echo, request: post("hello")},
		{name: "chunked body", handler: echo,
			request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n"},
		{name: "no body", handler: echo, request: get},
		{name: "broken body and nothing to say", handler: func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
		}, request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"},
		{name: "large body", handler: func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
		}, request: post(large)},
		{name: "unread body", handler: write("x"), request: post("hello")},
		{name: "body behind Close", handler: func(w http.ResponseWriter, r *http.Request) {
			r.Body.Close()
			_, err := r.Body.Read(make([]byte, 1))
			fmt.Fprint(w, err)
		}, request: post("hello")},
		{name: "MaxBytesReader", handler: func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 3))
			fmt.Fprint(w, err)
		}, request: post("hello"),
			reason: "closing the connection is for net/http's own writer; Shockwave reads the little rest away",
			differ: func(s *seen) {
				s.close, s.again, s.fields = false, true, strings.Replace(s.fields, "Connection: close\n", "", 1)
			},
		},
		{name: "request trailers", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.Trailer)
			io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, r.Trailer, r.Header)
		}, request: "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n"},
		{name: "the request", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.RequestURI, r.Close, list(r.Header))
			fmt.Fprintln(w, r.ContentLength, r.TransferEncoding, r.Trailer, r.URL.Path, r.URL.RawQuery, r.Body == http.NoBody)
		}, request: "PATCH /a%2Fb//c?d=%20&e HTTP/1.1\r\nhost: h:80\r\nx-a: 1\r\nX-A: 2\r\nx-B:  c\r\nCookie: a=b\r\n" +
			"Connection: x-B\r\n\r\n"},
		{name: "absolute target", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.URL, r.URL.Host, r.Host, r.RequestURI)
		}, request: "GET http://h.example/a?b HTTP/1.1\r\nHost: h.example\r\n\r\n"},
		{name: "asterisk", handler: func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.URL, r.URL.Path, r.RequestURI)
		}, request: "OPTIONS * HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0\r\n\r\n",
			reason: "net/http's server answers it before the handler",
			differ: func(s *seen) {
				s.length, s.body = 6, "* * *\n"
				s.fields = "Content-Length: 6\nContent-Type: text/plain; charset=utf-8"
			}},
		{name: "broken escape in the path", handler: write("x"), request: "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
			reason: "the words are the engine's",
			differ: func(s *seen) {
				s.body = "malformed request target\n"
				s.length, s.fields = int64(len(s.body)), "Content-Length: 25\nContent-Type: text/plain; charset=utf-8"
			}},
		{name: "ReadFrom", handler: func(w http.ResponseWriter, _ *http.Request) {
			n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader(large[:1000]))
			if n != 1000 || err != nil {
				panic(err)
			}
		}, request: get,
			reason: "Shockwave keeps it like any other bytes",
			differ: func(s *seen) { s.length, s.chunked, s.fields = 1000, false, "Content-Length: 1000\n"+s.fields }},
		{name: "panic", handler: func(http.ResponseWriter, *http.Request) { panic("on purpose") }, request: get,
			reason: "Shockwave says that it is its own fault",
			differ: func(s *seen) {
				*s = seen{status: 500, length: -2, close: true, ended: true}
			}},
		{name: "abort", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, request: get},
		{name: "abort in the body", handler: func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "abc")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, request: get},
		{name: "redirect", handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "../x", http.StatusFound)
		}, request: get},
		{name: "error", handler: func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) }, request: get},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := map[string]seen{}
			for server, address := range both(t, row.handler) {
				p := dial(t, address)
				p.sends(row.request)
				s, err := p.answer(row.method)
				if err == nil && !s.close && s.ended {
					// It may be closed already.
					_, _ = io.WriteString(p, get)
					_, err := p.answer("")
					s.again = err == nil
				}
				got[server] = s
			}
			want := got["net/http"]
			if row.differ != nil {
				row.differ(&want)
			}
			ours := got["shockwave"]
			if want.length == -2 {
				ours.length, ours.body, ours.fields = -2, "", ""
			}
			if ours != want {
				t.Errorf("net/http (and the differences we mean):\n%s\n\nshockwave:\n%s", want, ours)
			}
		})
	}
}

// TestFileServer compares what clients see of files: ranges, conditions, folders, errors.
func TestFileServer(t *testing.T) {
	root := t.TempDir()
	content := bytes.Repeat([]byte("0123456789"), 50_000)
	if err := os.WriteFile(filepath.Join(root, "file.txt"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	servers := both(t, http.FileServer(http.Dir(root)))
	for _, request := range []string{
		"GET /file.txt HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD /file.txt HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /file.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=5-9\r\n\r\n",
		"GET /file.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=-3\r\n\r\n",
		"GET /file.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=900000-\r\n\r\n",
		"GET /file.txt HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Fri, 31 Dec 2100 23:59:59 GMT\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /none HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET /file.txt/ HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		method, _, _ := strings.Cut(request, " ")
		got := map[string]seen{}
		for server, address := range servers {
			p := dial(t, address)
			p.sends(request)
			s, err := p.answer(method)
			if err != nil {
				t.Fatalf("%s: %q: %v", server, request, err)
			}
			got[server] = s
		}
		if got["shockwave"] != got["net/http"] {
			t.Errorf("%q:\nnet/http:\n%s\n\nshockwave:\n%s", request, got["net/http"], got["shockwave"])
		}
	}
}

// TestMux has patterns with methods, hosts and wildcards answered alike.
func TestMux(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Pattern, " ", r.PathValue("id"))
	})
	mux.HandleFunc("POST /items/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Pattern) })
	mux.HandleFunc("h.example/only/{rest...}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.PathValue("rest"))
	})
	servers := both(t, mux)
	for _, line := range []string{"GET /items/7 ", "GET /items/a%2Fb ", "DELETE /items/7 ", "POST /items/x/y ", "GET /only/a/b ",
		"GET //items/7 ", "GET /items/../items/7 "} {
		got := map[string]seen{}
		for server, address := range servers {
			p := dial(t, address)
			p.sends(line + "HTTP/1.1\r\nHost: h.example\r\n\r\n")
			s, err := p.answer("")
			if err != nil {
				t.Fatal(err)
			}
			got[server] = s
		}
		if got["shockwave"] != got["net/http"] {
			t.Errorf("%q:\nnet/http:\n%s\n\nshockwave:\n%s", line, got["net/http"], got["shockwave"])
		}
	}
}
