package stdhttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"titan.test/shockwave"
)

// under starts h under net/http in HTTP/1.1 and in HTTP/2 and runs the test with a client of each.
func under(t *testing.T, h shockwave.Handler, test func(t *testing.T, url string, client *http.Client)) {
	for _, h2 := range []bool{false, true} {
		name := map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[h2]
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(ServerHandler(&shockwave.Server{Handler: h, ErrorLog: quietLog()}))
			server.EnableHTTP2 = h2
			server.Config.ErrorLog = quiet()
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			client.Timeout = 20 * time.Second
			test(t, server.URL, client)
		})
	}
}

// fetch gives a response with its body.
func fetch(t *testing.T, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUnderShortResponse(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		c.Set("X-Path", string(c.Path()))
		c.Set("X-Host", string(c.Host()))
		c.Set("X-Field", string(c.Header("x-field")))
		c.Set("X-Remote", c.RemoteAddr().Network())
		c.Send("text/x", []byte(c.Method()+" "+string(c.Query())))
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		r := request(t, "GET", url+"/a%2Fb?c=d", nil)
		r.Header.Set("X-Field", "v")
		response, body := fetch(t, client, r)
		fields := response.Header
		if body != "GET c=d" || response.ContentLength != 7 || fields.Get("Content-Type") != "text/x" {
			t.Error(body, response)
		}
		if fields.Get("X-Path") != "/a%2Fb" || fields.Get("X-Host") != strings.TrimPrefix(url, "https://") ||
			fields.Get("X-Field") != "v" || fields.Get("X-Remote") != "tcp" || fields.Get("Connection") != "" {
			t.Error(fields)
		}
		response, body = fetch(t, client, request(t, "HEAD", url+"/?c=d", nil))
		if body != "" || response.ContentLength != 8 {
			t.Error(body, response)
		}
	})
}

func TestUnderNoHandler(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it is found when a request comes, at the soonest")
		}
	}()
	HTTPHandler(nil)
}

func TestUnderTLSState(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		if c.TLS() == nil {
			c.SendString("text/plain", "none")
			return
		}
		c.SendString("text/plain", tls.VersionName(c.TLS().Version))
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		if _, body := fetch(t, client, request(t, "GET", url, nil)); body != "TLS 1.3" {
			t.Error(body)
		}
	})
}

func TestUnderNoTypeIsGuessed(t *testing.T) {
	under(t, func(c *shockwave.Ctx) { c.WriteString("<html>") }, func(t *testing.T, url string, client *http.Client) {
		response, body := fetch(t, client, request(t, "GET", url, nil))
		if body != "<html>" || response.Header.Get("Content-Type") != "" {
			t.Error(body, response.Header)
		}
	})
}

func TestUnderBodies(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		c.Set("X-Length", fmt.Sprint(c.ContentLength()))
		io.Copy(c, c.Body())
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		large := strings.Repeat("0123456789", 100_000)
		for _, body := range []string{"", "x", large} {
			response, got := fetch(t, client, request(t, "POST", url, strings.NewReader(body)))
			if got != body || response.Header.Get("X-Length") != fmt.Sprint(len(body)) {
				t.Errorf("%d bytes: got %d, %v", len(body), len(got), response.Header)
			}
			// A reader of unknown length makes the client send chunks.
			response, got = fetch(t, client, request(t, "POST", url, io.MultiReader(strings.NewReader(body))))
			if got != body || body != "" && response.Header.Get("X-Length") != "-1" {
				t.Errorf("%d bytes in chunks: got %d, %v", len(body), len(got), response.Header)
			}
		}
	})
}

func TestUnderFullDuplex(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		c.Flush()
		piece := make([]byte, 16)
		for {
			n, err := c.Body().Read(piece)
			c.Write(piece[:n])
			c.Flush()
			if err != nil {
				return
			}
		}
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		from, to := io.Pipe()
		defer to.Close()
		response, err := client.Do(request(t, "POST", url, from))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		for i := range 3 {
			fmt.Fprintf(to, "%d", i)
			var got [1]byte
			if _, err := io.ReadFull(response.Body, got[:]); err != nil || got[0] != byte('0'+i) {
				t.Fatal(got, err)
			}
		}
		to.Close()
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) != 0 {
			t.Fatal(rest, err)
		}
	})
}

func TestUnderTrailers(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		c.Body().Read(make([]byte, 1))
		io.Copy(c, c.Body())
		for name, value := range c.Trailers() {
			c.Trailer(string(name), string(value))
		}
		c.Trailer("X-Ours", "1")
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		r := request(t, "POST", url, io.MultiReader(strings.NewReader("body")))
		r.Trailer = http.Header{"X-Theirs": {"2"}}
		response, _ := fetch(t, client, r)
		if response.Trailer.Get("X-Ours") != "1" || response.Trailer.Get("X-Theirs") != "2" {
			t.Error(response.Trailer)
		}
	})
}

func TestUnderEarlyHints(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		c.Early("Link", "</a>")
		c.SendString("text/plain", "done")
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		var hints []string
		r := request(t, "GET", url, nil)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, fields textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, fields.Get("Link")))
				return nil
			},
		}))
		response, body := fetch(t, client, r)
		if fmt.Sprint(hints) != "[103</a>]" && fmt.Sprint(hints) != "[103 </a>]" || body != "done" || response.Header.Get("Link") != "" {
			t.Error(hints, body, response.Header)
		}
	})
}

func TestUnderExpectContinue(t *testing.T) {
	accept := func(c *shockwave.Ctx) {
		body, err := c.ReadBody(-1)
		c.SendString("text/plain", fmt.Sprint(string(body), err))
	}
	refuse := func(c *shockwave.Ctx) { c.Error(http.StatusForbidden, "") }
	// Only HTTP/1 tells a handler of the expectation; in HTTP/2 net/http keeps it to itself.
	for name, want := range map[string]string{"accept": "100 hello<nil>", "refuse": "403"} {
		t.Run(name, func(t *testing.T) {
			h := map[string]shockwave.Handler{"accept": accept, "refuse": refuse}[name]
			server := httptest.NewServer(HTTPHandler(h))
			// Behind the client's connection: net/http waits for the body that it did not ask for.
			t.Cleanup(server.Close)
			p := dial(t, server.Listener.Addr().String())
			p.sends("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
			s, err := p.answer("")
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(s.status)
			if s.status == 100 {
				p.sends("hello")
				s, err = p.answer("")
				got += " " + s.body
			}
			if got != want || err != nil {
				t.Error(got, err)
			}
		})
	}
}

func TestUnderCancel(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error)
	h := func(c *shockwave.Ctx) {
		ctx := c.Context()
		started <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		r := request(t, "GET", url, nil)
		ctx, cancel := context.WithCancel(r.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := client.Do(r.WithContext(ctx))
			failed <- err
		}()
		await(t, "start", started)
		cancel()
		if err := await(t, "end", ended); !errors.Is(err, shockwave.ErrClientGone) {
			t.Error(err)
		}
		await(t, "client", failed)
	})
}

// TestUnderHandlerOutlivesItsResponse has the client see the whole response while the handler goes on: that is no hang-up.
func TestUnderHandlerOutlivesItsResponse(t *testing.T) {
	goOn, ended := make(chan struct{}), make(chan error)
	h := func(c *shockwave.Ctx) {
		if string(c.Path()) == "/other" {
			return
		}
		ctx := c.Context()
		c.Set("Content-Length", "1")
		c.WriteString("x")
		c.Flush()
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		ended <- ctx.Err()
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		response, err := client.Do(request(t, "GET", url, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadFull(response.Body, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		// Another client, because on the connection of this one the handler is still busy.
		other := &http.Client{Transport: client.Transport.(*http.Transport).Clone()}
		fetch(t, other, request(t, "GET", url+"/other", nil))
		other.CloseIdleConnections()
		select {
		case goOn <- struct{}{}:
			if err := await(t, "end of the handler", ended); err != nil {
				t.Error(err)
			}
		case err := <-ended:
			t.Error("the handler lost its client: ", err)
		}
	})
}

func TestUnderPanics(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		if string(c.Path()) == "/late" {
			c.WriteString("abc")
			c.Flush()
		}
		if string(c.Path()) == "/abort" {
			panic(shockwave.ErrAbort)
		}
		panic("on purpose")
	}
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		if response, _ := fetch(t, client, request(t, "GET", url, nil)); response.StatusCode != 500 {
			t.Error(response.Status)
		}
		if _, err := client.Do(request(t, "GET", url+"/abort", nil)); err == nil {
			t.Error("an aborted exchange has a response")
		}
		response, err := client.Do(request(t, "GET", url+"/late", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadAll(response.Body); err == nil {
			t.Error("an aborted body looks whole")
		}
	})
}

// TestUnderUnreadBody answers while the client still sends and reads nothing of it.
func TestUnderUnreadBody(t *testing.T) {
	h := func(c *shockwave.Ctx) { c.Error(http.StatusForbidden, "") }
	under(t, h, func(t *testing.T, url string, client *http.Client) {
		for range 3 {
			response, err := client.Do(request(t, "POST", url, strings.NewReader(strings.Repeat("x", 100_000))))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != 403 {
				t.Error(response.Status)
			}
		}
	})
}

// TestUnderStalledBody answers a client that does not send its body. In HTTP/2 the handler must end though the body
// never comes.
func TestUnderStalledBody(t *testing.T) {
	// Not an error, for which Go's client would give its body up.
	h := HTTPHandler(func(c *shockwave.Ctx) { c.SendString("text/plain", "enough") })
	returned := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		returned <- struct{}{}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	from, to := io.Pipe()
	defer to.Close()
	client := server.Client()
	client.Timeout = 20 * time.Second
	response, err := client.Do(request(t, "POST", server.URL, from))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "enough" {
		t.Fatal(string(body), err)
	}
	await(t, "end of the handler", returned)
}

// TestUnderAbortInAStalledBody cuts the connection though the client neither sends nor closes.
func TestUnderAbortInAStalledBody(t *testing.T) {
	server := httptest.NewUnstartedServer(HTTPHandler(func(c *shockwave.Ctx) {
		if string(c.Path()) == "/late" {
			c.WriteString("abc")
			c.Flush()
		}
		panic(shockwave.ErrAbort)
	}))
	server.Config.ErrorLog = quiet()
	server.Start()
	t.Cleanup(server.Close)
	for path, want := range map[string]string{"/": "", "/late": "HTTP/1.1 200 OK"} {
		p := dial(t, server.Listener.Addr().String())
		p.sends("POST " + path + " HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nx")
		got, err := io.ReadAll(p.r)
		// A reset is as good an end, for the byte that was not read.
		if errors.Is(err, os.ErrDeadlineExceeded) || !strings.HasPrefix(string(got), want) || want == "" && len(got) > 0 ||
			strings.HasSuffix(string(got), "0\r\n\r\n") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// TestUnderMiddleware has fields that another handler set before: they are the final response's too.
func TestUnderMiddleware(t *testing.T) {
	h := HTTPHandler(func(c *shockwave.Ctx) {
		c.Early("Link", "</a>")
		c.Set("X-Inner", "1")
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		h.ServeHTTP(w, r)
	}))
	defer server.Close()
	response, _ := fetch(t, server.Client(), request(t, "GET", server.URL, nil))
	fields := response.Header
	if fields.Get("X-Outer") != "1" || fields.Get("X-Inner") != "1" || fields.Get("Link") != "" {
		t.Error(fields)
	}
}

// TestTrailersOfCountedBodies: in HTTP/2 a body may have both a Content-Length and trailers.
func TestTrailersOfCountedBodies(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("body"))
	r.Trailer = http.Header{"X-Sum": {"1"}}
	response, err := Do(func(c *shockwave.Ctx) {
		body, _ := c.ReadBody(10)
		for name, value := range c.Trailers() {
			fmt.Fprintf(c, "%s: %s %s", name, value, body)
		}
	}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, _ := io.ReadAll(response.Body); string(got) != "X-Sum: 1 body" {
		t.Errorf("%q", got)
	}
}

func TestUnderLimits(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		if _, err := c.ReadBody(-1); err != nil {
			c.Error(http.StatusRequestEntityTooLarge, "")
			return
		}
		c.SendString("text/plain", "ok")
	}
	s := &shockwave.Server{Handler: h, Limits: shockwave.Limits{Body: 10, Target: 50}, Name: "shock"}
	server := httptest.NewServer(ServerHandler(s))
	defer server.Close()
	for target, want := range map[string]int{"/": 200, "/" + strings.Repeat("a", 50): 414} {
		response, _ := fetch(t, server.Client(), request(t, "GET", server.URL+target, nil))
		if response.StatusCode != want || want == 200 && response.Header.Get("Server") != "shock" {
			t.Error(target, response)
		}
	}
	response, _ := fetch(t, server.Client(), request(t, "POST", server.URL, strings.NewReader("0123456789a")))
	if response.StatusCode != 413 {
		t.Error(response.Status)
	}
}

func TestUnderUpgrade(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		if string(c.Header("Upgrade")) != "echo" {
			c.Error(http.StatusUpgradeRequired, "")
			return
		}
		conn, received, err := c.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"+string(received))
		io.Copy(conn, conn)
	}
	server := httptest.NewServer(HTTPHandler(h))
	defer server.Close()
	p := dial(t, server.Listener.Addr().String())
	p.sends("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	if s, err := p.answer(""); err != nil || s.status != 101 || !strings.Contains(s.fields, "Upgrade: echo") {
		t.Fatal(s, err)
	}
	for range 3 {
		p.sends("ping\n")
		if line, err := p.r.ReadString('\n'); err != nil || line != "ping\n" {
			t.Fatal(line, err)
		}
	}
}

// TestUnderUpgradeRequired asks once with a body that does not come, for which the connection is closed.
func TestUnderUpgradeRequired(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		c.Set("Connection", "upgrade")
		c.Set("Upgrade", "echo")
		c.Error(http.StatusUpgradeRequired, "")
	}
	server := httptest.NewServer(HTTPHandler(h))
	t.Cleanup(server.Close)
	for request, closes := range map[string]bool{
		get: false,
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n": true,
	} {
		p := dial(t, server.Listener.Addr().String())
		p.sends(request)
		response, err := http.ReadResponse(p.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		fields := response.Header
		if response.StatusCode != 426 || fields.Get("Upgrade") != "echo" || response.Close != closes ||
			!closes && fields.Get("Connection") != "upgrade" {
			t.Errorf("%q: %+v", request, response)
		}
		p.Close()
	}
	secure := NewTLSServer(h)
	defer secure.Close()
	response, _ := fetch(t, speaking(secure, true), request(t, "GET", secure.URL, nil))
	if fields := response.Header; response.StatusCode != 426 || fields.Get("Upgrade") != "" || fields.Get("Connection") != "" {
		t.Error(response.Status, fields)
	}
}

func TestUnderHTTP10(t *testing.T) {
	server := httptest.NewServer(HTTPHandler(func(c *shockwave.Ctx) {
		c.WriteString(c.Proto())
		c.Flush()
	}))
	defer server.Close()
	p := dial(t, server.Listener.Addr().String())
	p.sends(old)
	if s, err := p.answer(""); err != nil || s.body != "HTTP/1.0" || s.chunked {
		t.Fatal(s, err)
	}
}

// TestBadRequests has middleware spoil requests on their way: nothing of that may become a part of the message.
func TestBadRequests(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"value":  func(r *http.Request) { r.Header.Set("X-A", "a\r\nX-B: b") },
		"name":   func(r *http.Request) { r.Header["X A"] = []string{"b"} },
		"host":   func(r *http.Request) { r.Host = "a\r\nX-B: b" },
		"method": func(r *http.Request) { r.Method = "GET /\r\n" },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX-B: b" },
		"opaque": func(r *http.Request) { r.URL.Opaque = "a b" },
	} {
		h := HTTPHandler(func(c *shockwave.Ctx) { t.Errorf("%s: %q arrived", name, c.Target()) })
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		spoil(r)
		h.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Error(name, w.Code)
		}
	}
}

func TestStripPrefix(t *testing.T) {
	h := http.StripPrefix("/api", HTTPHandler(func(c *shockwave.Ctx) { c.Send("text/plain", c.Target()) }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/items?x=1", nil))
	if w.Body.String() != "/items?x=1" {
		t.Error(w.Body)
	}
}

func TestRemoteAddresses(t *testing.T) {
	h := HTTPHandler(func(c *shockwave.Ctx) { c.SendString("text/plain", c.RemoteAddr().String()) })
	for _, address := range []string{"192.0.2.1:1234", "[2001:db8::1]:80", "@"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address
		h.ServeHTTP(w, r)
		if w.Body.String() != address {
			t.Error(address, w.Body)
		}
	}
}
