package stdhttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"titan.test/shockwave"
)

// onBoth runs a test against h under net/http and on Shockwave.
func onBoth(t *testing.T, h http.Handler, test func(t *testing.T, p *peerConn)) {
	for server, address := range both(t, h) {
		t.Run(server, func(t *testing.T) { test(t, dial(t, address)) })
	}
}

// await fails when what is expected does not come.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatal("did not come: " + what)
	}
	return v
}

func TestFlushSendsAtOnce(t *testing.T) {
	goOn := make(chan struct{})
	h := func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first")
		http.NewResponseController(w).Flush()
		<-goOn
		io.WriteString(w, "second")
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends(get)
		response, err := http.ReadResponse(p.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 5)
		if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "first" {
			t.Fatal(string(first), err)
		}
		goOn <- struct{}{}
		if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "second" {
			t.Fatal(string(rest), err)
		}
	})
}

func TestContextEndsWhenTheClientHangsUp(t *testing.T) {
	ended := make(chan error)
	h := func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); !ok {
			t.Error("no local address")
		}
		<-r.Context().Done()
		ended <- r.Context().Err()
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends(get)
		p.Close()
		if err := await(t, "end of the context", ended); err != context.Canceled {
			t.Fatal(err)
		}
	})
}

func TestContextEndsWithTheHandler(t *testing.T) {
	contexts := make(chan context.Context, 1)
	h := func(_ http.ResponseWriter, r *http.Request) {
		contexts <- r.Context()
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends(get)
		ctx := await(t, "context", contexts)
		await(t, "end of the context", ctx.Done())
		if _, err := p.answer(""); err != nil {
			t.Fatal(err)
		}
	})
}

func TestPipelinedRequestSurvivesTheContext(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		fmt.Fprint(w, r.URL.Path, ctx.Err())
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n")
		for _, want := range []string{"/1<nil>", "/2<nil>"} {
			if s, err := p.answer(""); err != nil || s.body != want {
				t.Fatal(s, err)
			}
		}
	})
}

func TestExpectContinue(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	reading := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, string(body), err)
	}
	onBoth(t, http.HandlerFunc(reading), func(t *testing.T, p *peerConn) {
		p.sends(request)
		if s, err := p.answer(""); err != nil || s.status != 100 {
			t.Fatal(s, err)
		}
		p.sends("hello")
		if s, err := p.answer(""); err != nil || s.body != "hello<nil>" {
			t.Fatal(s, err)
		}
	})
	refusing := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) }
	onBoth(t, http.HandlerFunc(refusing), func(t *testing.T, p *peerConn) {
		p.sends(request)
		if s, err := p.answer(""); err != nil || s.status != 403 || !s.close {
			t.Fatal(s, err)
		}
	})
}

func TestInterimResponses(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		w.Header().Set("X-Final", "1")
		io.WriteString(w, "done")
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends(get)
		for _, status := range []int{103, 102} {
			if s, err := p.answer(""); err != nil || s.status != status || s.fields != "Link: </a>" {
				t.Fatal(s, err)
			}
		}
		s, err := p.answer("")
		if err != nil || s.body != "done" || !strings.Contains(s.fields, "Link: </a>") || !strings.Contains(s.fields, "X-Final: 1") {
			t.Fatal(s, err)
		}
	})
}

func TestFullDuplex(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		control.Flush()
		piece := make([]byte, 16)
		for {
			n, err := r.Body.Read(piece)
			w.Write(piece[:n])
			control.Flush()
			if err != nil {
				return
			}
		}
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
		response, err := http.ReadResponse(p.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			p.sends(fmt.Sprintf("1\r\n%d\r\n", i))
			var got [1]byte
			if _, err := io.ReadFull(response.Body, got[:]); err != nil || got[0] != byte('0'+i) {
				t.Fatal(got, err)
			}
		}
		p.sends("0\r\n\r\n")
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) != 0 {
			t.Fatal(rest, err)
		}
	})
}

// TestBodyReadElsewhere has another goroutine read the body while the handler writes, as a proxy does.
func TestBodyReadElsewhere(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		count := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, r.Body)
			count <- n
		}()
		for range 50 {
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, <-count)
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		go func() {
			io.WriteString(p, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500000\r\n\r\n")
			for range 50 {
				io.WriteString(p, strings.Repeat("y", 10_000))
			}
		}()
		s, err := p.answer("")
		if err != nil || s.body != strings.Repeat("x", 50)+"500000" {
			t.Fatal(s, err)
		}
	})
}

func TestHijack(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := w.Write([]byte("x")); err != http.ErrHijacked {
			t.Error(err)
		}
		early, _ := rw.Peek(rw.Reader.Buffered())
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: shout\r\nConnection: Upgrade\r\n\r\n%d:", len(early))
		rw.Flush()
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			rw.WriteString(strings.ToUpper(line))
			rw.Flush()
		}
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nearly\n")
		if s, err := p.answer(""); err != nil || s.status != 101 {
			t.Fatal(s, err)
		}
		if count, err := p.r.ReadString(':'); err != nil || count != "6:" {
			t.Fatal(count, err)
		}
		p.sends("late\n")
		for _, want := range []string{"EARLY\n", "LATE\n"} {
			if line, err := p.r.ReadString('\n'); err != nil || line != want {
				t.Fatal(line, err)
			}
		}
	})
}

func TestSwitchByWriteHeader(t *testing.T) {
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "echo")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.Copy(conn, rw)
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		p.sends("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if s, err := p.answer(""); err != nil || s.status != 101 || !strings.Contains(s.fields, "Upgrade: echo") {
			t.Fatal(s, err)
		}
		p.sends("ping\n")
		if line, err := p.r.ReadString('\n'); err != nil || line != "ping\n" {
			t.Fatal(line, err)
		}
	})
}

// TestReverseProxy runs httputil.ReverseProxy on Shockwave: bodies both ways, trailers, upgrades, and an upstream that
// breaks off, which must not look like the end.
func TestReverseProxy(t *testing.T) {
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			io.WriteString(w, "abc")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/upgrade":
			w.Header().Set("Upgrade", "echo")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, rw, _ := w.(http.Hijacker).Hijack()
			defer conn.Close()
			io.Copy(conn, rw)
		default:
			// Read first: net/http, when it is the proxy, does not bear a response that overtakes the body.
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Trailer", "X-Sum")
			w.Write(body)
			w.Header().Set("X-Sum", fmt.Sprint(len(body)))
		}
	}))
	upstream.Config.ErrorLog = quiet()
	upstream.Start()
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = quiet()
	onBoth(t, proxy, func(t *testing.T, p *peerConn) {
		body := strings.Repeat("0123456789", 1000)
		p.sends(fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body))
		s, err := p.answer("")
		if err != nil || s.body != body || s.trailers != "X-Sum: 10000" {
			t.Fatal(s, err)
		}
		again := dial(t, p.RemoteAddr().String())
		again.sends("GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		if s, err := again.answer(""); err != nil || s.status != 101 {
			t.Fatal(s, err)
		}
		again.sends("ping\n")
		if line, err := again.r.ReadString('\n'); err != nil || line != "ping\n" {
			t.Fatal(line, err)
		}
		p.sends("GET /cut HTTP/1.1\r\nHost: h\r\n\r\n")
		if s, err := p.answer(""); err != nil || s.ended {
			t.Fatal("cut answer looks whole:", s, err)
		}
	})
}

func TestDateIsTheHandlers(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		if r.Method == http.MethodHead {
			w.Header().Set("Date", "then")
		}
	}
	onBoth(t, http.HandlerFunc(h), func(t *testing.T, p *peerConn) {
		for _, row := range []struct{ request, want string }{{get, "[]"}, {head, "[then]"}} {
			p.sends(row.request)
			response, err := http.ReadResponse(p.r, &http.Request{Method: row.request[:4]})
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(response.Header["Date"]); got != row.want {
				t.Error(got, row.want)
			}
		}
	})
}

func TestTimeoutHandler(t *testing.T) {
	release := make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		<-release
	})
	defer close(release)
	onBoth(t, http.TimeoutHandler(slow, time.Millisecond, "too slow"), func(t *testing.T, p *peerConn) {
		p.sends(get)
		if s, err := p.answer(""); err != nil || s.status != 503 || s.body != "too slow" {
			t.Fatal(s, err)
		}
	})
}

func TestBodyOverItsLimit(t *testing.T) {
	errs := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		errs <- err
		http.Error(w, "long", http.StatusRequestEntityTooLarge)
	})
	server := Start(&shockwave.Server{Handler: Handler(h), Limits: shockwave.Limits{Body: 10}})
	defer server.Close()
	p := dial(t, strings.TrimPrefix(server.URL, "http://"))
	defer p.Close()
	p.sends("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n")
	if s, err := p.answer(""); err != nil || s.status != 413 {
		t.Fatal(s, err)
	}
	if err, ok := await(t, "error", errs).(*http.MaxBytesError); !ok || err.Limit != 10 {
		t.Fatalf("%#v", err)
	}
}

func TestPanicIsThePanic(t *testing.T) {
	defer func() {
		if v := recover(); v != "x" {
			t.Fatal(v)
		}
	}()
	defer leave(new(turn), new(http.Request))
	panic("x")
}

func TestTLSState(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, tls.VersionName(r.TLS.Version)) })
	server := NewTLSServer(Handler(h))
	defer server.Close()
	for _, h2 := range []bool{false, true} {
		client := speaking(server, h2)
		if _, body := fetch(t, client, request(t, "GET", server.URL, nil)); body != "TLS 1.3" {
			t.Error(body)
		}
		client.CloseIdleConnections()
	}
}

// speaking gives a client that speaks HTTP/2 alone or HTTP/1.1 alone.
func speaking(server *TestServer, h2 bool) *http.Client {
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetHTTP2(h2)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// TestTooManyFields has a response of which only some fields could be sent.
func TestTooManyFields(t *testing.T) {
	var log bytes.Buffer
	h := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", strings.Repeat("a", 1000))
		w.Header().Set("X-B", "b")
		if _, err := io.WriteString(w, "x"); err == nil {
			t.Error("the body was taken")
		}
	}
	server := Start(&shockwave.Server{Handler: Handler(http.HandlerFunc(h)), Limits: shockwave.Limits{ResponseFields: 500},
		ErrorLog: slog.New(slog.NewTextHandler(&log, nil))})
	defer server.Close()
	p := dial(t, strings.TrimPrefix(server.URL, "http://"))
	p.sends(get + get)
	for range 2 {
		s, err := p.answer("")
		if err != nil || s.status != 500 || strings.Contains(s.fields, "X-") {
			t.Error(s, err)
		}
	}
	if !strings.Contains(log.String(), "ResponseFields") {
		t.Error("nobody was told:", log.String())
	}
}
