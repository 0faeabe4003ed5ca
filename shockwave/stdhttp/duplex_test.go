package stdhttp

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"titan.test/shockwave"
)

// TestBodyAwaitedElsewhere has a client that goes on only when it saw the response's beginning, while a goroutine of the
// handler waits for the body.
func TestBodyAwaitedElsewhere(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.EnableFullDuplex()
		reading, count := make(chan struct{}), make(chan int64)
		go func() {
			io.ReadFull(r.Body, make([]byte, 1))
			close(reading)
			n, _ := io.Copy(io.Discard, r.Body)
			count <- n
		}()
		<-reading
		for range 100 {
			io.WriteString(w, "x")
			control.Flush()
		}
		fmt.Fprint(w, <-count)
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nh")
		response, err := http.ReadResponse(p.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(response.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		p.sends("ello")
		if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "4" {
			t.Fatal(string(rest), err)
		}
		p.sends(get)
	})
}

// TestBodyAwaitedBehindTheHandler has the client stop in its body for good: it still gets the response.
func TestBodyAwaitedBehindTheHandler(t *testing.T) {
	ended := make(chan error, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		reading := make(chan struct{})
		go func() {
			io.ReadFull(r.Body, make([]byte, 1))
			close(reading)
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
		}()
		<-reading
		io.WriteString(w, "first")
	}
	server := Start(&shockwave.Server{Handler: Handler(http.HandlerFunc(h)), ErrorLog: quietLog()})
	defer server.Close()
	p := dial(t, strings.TrimPrefix(server.URL, "http://"))
	defer p.Close()
	p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nh")
	if s, err := p.answer(""); err != nil || s.body != "first" || !s.ended {
		t.Fatal(s, err)
	}
	if err := await(t, "end of the body", ended); err == nil {
		t.Fatal("a body that broke off looks whole")
	}
}

func TestDeadlines(t *testing.T) {
	errs := make(chan error, 2)
	h := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/write" {
			control.SetWriteDeadline(longAgo)
			io.WriteString(w, "x")
			errs <- control.Flush()
			return
		}
		if err := control.SetReadDeadline(longAgo); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		errs <- err
		io.WriteString(w, "late")
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 50000\r\n\r\nh")
		if err := await(t, "end of the body", errs); err == nil {
			t.Error("a body whose deadline has passed looks whole")
		}
		if p.Close(); t.Failed() {
			return
		}
		again := dial(t, p.RemoteAddr().String())
		again.sends("GET /write HTTP/1.1\r\nHost: h\r\n\r\n")
		if err := await(t, "end of the response", errs); err == nil {
			t.Error("a response whose deadline has passed was sent")
		}
	})
}

// TestDeadlineEndsWithItsRequest has deadlines that are past already when the next request comes.
func TestDeadlineEndsWithItsRequest(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Method == http.MethodGet {
			control.SetReadDeadline(longAgo)
			control.SetWriteDeadline(time.Now().Add(time.Hour))
			return
		}
		io.Copy(w, r.Body)
	}
	server := Start(&shockwave.Server{Handler: Handler(http.HandlerFunc(h)), ErrorLog: quietLog()})
	defer server.Close()
	p := dial(t, strings.TrimPrefix(server.URL, "http://"))
	for range 2 {
		p.sends(get)
		if s, err := p.answer(""); err != nil || s.status != 200 {
			t.Fatal(s, err)
		}
		p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhe")
		p.sends("llo")
		if s, err := p.answer(""); err != nil || s.body != "hello" {
			t.Fatal(s, err)
		}
	}
}

// TestWriteDeadlineHoldsBehindTheHandler has a response that the server sends when the handler has returned.
func TestWriteDeadlineHoldsBehindTheHandler(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(longAgo)
		io.WriteString(w, "late")
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends(get)
		if s, err := p.answer(""); err == nil {
			t.Error(s)
		}
	})
}

// TestBothWaysAtOnce has a client that sends all of a large body before it reads any of a large response.
func TestBothWaysAtOnce(t *testing.T) {
	const size = 16 << 20
	h := func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		var reading sync.WaitGroup
		reading.Go(func() {
			if n, err := io.Copy(io.Discard, r.Body); n != size || err != nil {
				t.Error(n, err)
			}
		})
		for range 16 {
			if _, err := w.Write(make([]byte, size/16)); err != nil {
				t.Error(err)
			}
		}
		reading.Wait()
	}
	onBothWith(t, http.HandlerFunc(h), shockwave.Limits{Body: size}, func(t *testing.T, p *peerConn) {
		p.sends(fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", size))
		p.sends(strings.Repeat("a", size))
		if s, err := p.answer(""); err != nil || len(s.body) != size {
			t.Error(len(s.body), err)
		}
	})
}

// onBothWith is onBoth with other limits on Shockwave.
func onBothWith(t *testing.T, h http.Handler, limits shockwave.Limits, test func(t *testing.T, p *peerConn)) {
	theirs := httptest.NewServer(h)
	defer theirs.Close()
	ours := Start(&shockwave.Server{Handler: Handler(h), Limits: limits, ErrorLog: quietLog()})
	defer ours.Close()
	for server, url := range map[string]string{"net/http": theirs.URL, "shockwave": ours.URL} {
		t.Run(server, func(t *testing.T) { test(t, dial(t, strings.TrimPrefix(url, "http://"))) })
	}
}

// A left reader is a handler that returns while a goroutine of it reads the body. GET answers "second".
type leftReader struct {
	t       *testing.T
	started chan struct{} // the first byte was read
	goOn    chan struct{} // the handler may return
	read    chan string   // all that was read
}

func (l *leftReader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		io.WriteString(w, "second")
		return
	}
	go func() {
		piece := make([]byte, 1)
		_, _ = r.Body.Read(piece)
		close(l.started)
		rest, err := io.ReadAll(r.Body)
		l.read <- fmt.Sprint(string(piece)+string(rest), " ", err == nil)
	}()
	await(l.t, "end of the client's wait", l.goOn)
	io.WriteString(w, "first")
}

func startLeftReader(t *testing.T) (*leftReader, *peerConn) {
	l := &leftReader{t, make(chan struct{}), make(chan struct{}), make(chan string, 1)}
	server := Start(&shockwave.Server{Handler: Handler(l), ErrorLog: quietLog(),
		Timeouts: shockwave.Timeouts{Body: -1, MinBodyRate: -1}})
	t.Cleanup(server.Close)
	return l, dial(t, strings.TrimPrefix(server.URL, "http://"))
}

// TestBodyReadBehindTheHandler has a goroutine that read all of the body when the handler returned. It must get nothing
// of the next request, which is answered.
func TestBodyReadBehindTheHandler(t *testing.T) {
	l, p := startLeftReader(t)
	p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello" + get)
	await(t, "beginning of the body", l.started)
	if got := await(t, "end of the body", l.read); got != "hello true" {
		t.Error(got)
	}
	close(l.goOn)
	for _, want := range []string{"first", "second"} {
		if s, err := p.answer(""); err != nil || s.body != want {
			t.Fatal(s, err)
		}
	}
}

// TestBodyMissingBehindTheHandler has it wait for bytes that never come: it is cut off, and so is the connection.
func TestBodyMissingBehindTheHandler(t *testing.T) {
	l, p := startLeftReader(t)
	p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nh")
	await(t, "beginning of the body", l.started)
	close(l.goOn)
	if s, err := p.answer(""); err != nil || s.body != "first" {
		t.Fatal(s, err)
	}
	if got := await(t, "end of the body", l.read); got != "h false" {
		t.Error(got)
	}
	if s, err := p.answer(""); err == nil {
		t.Error("the connection goes on:", s)
	}
}

// TestBodyBehindHijack has a goroutine that begins to read the body when the connection is the handler's.
func TestBodyBehindHijack(t *testing.T) {
	errs := make(chan error, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, err = r.Body.Read(make([]byte, 10))
		errs <- err
		early := make([]byte, 5)
		io.ReadFull(rw, early)
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%s", early)
	}
	server := Start(&shockwave.Server{Handler: Handler(http.HandlerFunc(h)), ErrorLog: quietLog()})
	defer server.Close()
	p := dial(t, strings.TrimPrefix(server.URL, "http://"))
	p.sends(post("hello"))
	if s, err := p.answer(""); err != nil || s.body != "hello" {
		t.Error(s, err)
	}
	if err := await(t, "end of the body", errs); err != http.ErrHijacked {
		t.Error(err)
	}
}

// TestBodyTimeoutBesideWrites has writes that must not lengthen the wait for the body.
func TestBodyTimeoutBesideWrites(t *testing.T) {
	ended := make(chan error, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, err := io.ReadAll(r.Body)
			ended <- err
		}()
		for {
			io.WriteString(w, "beat")
			http.NewResponseController(w).Flush()
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	server := Start(&shockwave.Server{Handler: Handler(http.HandlerFunc(h)), ErrorLog: quietLog(),
		Timeouts: shockwave.Timeouts{Body: 50 * time.Millisecond}})
	defer server.Close()
	p := dial(t, strings.TrimPrefix(server.URL, "http://"))
	p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nh")
	if err := await(t, "end of the body", ended); err != shockwave.ErrTimeout {
		t.Error(err)
	}
}
