package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A running is a command under test.
type running struct {
	address string
	stop    context.CancelFunc
	ended   chan error
}

// start runs the command until the test ends and gives the address of its first line.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	r := &running{stop: stop, ended: make(chan error, 1)}
	go func() {
		err := run(ctx, args, in, io.Discard)
		in.CloseWithError(io.EOF)
		r.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		select {
		case err := <-r.ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("does not end")
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "listening on ")
	if !ok {
		t.Fatalf("first line %q", line)
	}
	r.address = address
	return r
}

// fetch asks the service and gives the response with its body. Connections are not kept, so that nothing waits for them.
func (r *running) fetch(t *testing.T, method, path string, body io.Reader) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, &http.Transport{DisableKeepAlives: true}, request)
}

func do(t *testing.T, transport http.RoundTripper, request *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(request.URL, err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(request.URL, err)
	}
	return response, string(b)
}

func (r *running) echo(t *testing.T, method, path string, body io.Reader) report {
	t.Helper()
	response, text := r.fetch(t, method, path, body)
	var got report
	if err := json.Unmarshal([]byte(text), &got); err != nil || response.Header.Get("Content-Type") != "application/json" {
		t.Fatal(text, err, response.Header)
	}
	return got
}

func TestEcho(t *testing.T) {
	r := start(t, "-name", "one")
	for _, path := range []string{"/", "/echo", "/any/other"} {
		got := r.echo(t, "PUT", path+"?a=b", strings.NewReader("body"))
		if got.Name != "one" || got.Method != "PUT" || got.Target != path+"?a=b" || got.Path != path || got.Query != "a=b" ||
			got.Proto != "HTTP/1.1" || got.Host != r.address || got.Body != "body" || got.Request != 1 {
			t.Errorf("%+v", got)
		}
		if !strings.Contains(fmt.Sprint(got.Fields), "[Content-Length 4]") || !strings.HasPrefix(got.Remote, "127.0.0.1:") {
			t.Errorf("%+v", got)
		}
	}
	if got := r.echo(t, "POST", "/", strings.NewReader("\xff\x00")); got.BodyBase64 != "/wA=" || got.Body != "" {
		t.Errorf("%+v", got)
	}
	c := dial(t, "tcp", r.address)
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", maxEcho+1)
	if response, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || response.StatusCode != 413 {
		t.Error(response, err)
	}
}

func TestEchoTrailers(t *testing.T) {
	r := start(t)
	request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.address, io.MultiReader(strings.NewReader("x")))
	if err != nil {
		t.Fatal(err)
	}
	request.Trailer = http.Header{"X-Sum": {"1"}}
	request.Close = true
	_, text := do(t, &http.Transport{}, request)
	var got report
	if err := json.Unmarshal([]byte(text), &got); err != nil || fmt.Sprint(got.Trailers) != "[[X-Sum 1]]" {
		t.Error(text, err)
	}
}

func TestName(t *testing.T) {
	r := start(t, "-name", "two")
	response, _ := r.fetch(t, "GET", "/bytes/1", nil)
	if response.Header.Get("Echo-Name") != "two" {
		t.Error(response.Header)
	}
}

func TestResponses(t *testing.T) {
	r := start(t)
	data := func(n int) string { return strings.Repeat("0123456789abcdef", n/16+1)[:n] }
	for _, row := range []struct {
		path   string
		status int
		length int64 // -1 for chunked
		body   string
	}{
		{"/bytes/0", 200, 0, ""},
		{"/bytes/20", 200, 20, data(20)},
		{"/bytes/200001", 200, 200001, data(200001)},
		{"/chunked/0/5", 200, -1, ""},
		{"/chunked/3/5", 200, -1, "012340123401234"},
		{"/chunked/2/100000", 200, -1, "*200000"},
		{"/sse/2", 200, -1, "id: 1\ndata: event 1\n\nid: 2\ndata: event 2\n\n"},
		{"/sse/2?interval=1", 200, -1, "id: 1\ndata: event 1\n\nid: 2\ndata: event 2\n\n"},
		{"/status/204", 204, 0, ""},
		{"/status/304", 304, 0, ""},
		{"/status/418", 418, 0, "*"},
		{"/early", 200, 6, "early\n"},
		{"/headers/3/10", 200, 8, "headers\n"},
		{"/close", 200, 6, "close\n"},
		{"/health", 200, 3, "ok\n"},
		{"/missing", 404, 0, "*"},
		{"/missing/x/y", 404, 0, "*"},
	} {
		response, body := r.fetch(t, "GET", row.path, nil)
		if response.StatusCode != row.status {
			t.Error(row.path, response.Status)
		}
		if n, ok := strings.CutPrefix(row.body, "*"); ok {
			if n != "" && n != fmt.Sprint(len(body)) {
				t.Error(row.path, len(body))
			}
			continue
		}
		if body != row.body || response.ContentLength != row.length {
			t.Errorf("%s: %d bytes of %d: %.50q", row.path, len(body), response.ContentLength, body)
		}
	}
}

func TestWrongNumbers(t *testing.T) {
	r := start(t)
	for _, path := range []string{"/bytes", "/bytes/", "/bytes/x", "/bytes/-1", "/bytes/1073741825", "/bytes/99999999999999999999",
		"/delay/60001", "/work/60001", "/chunked/1", "/chunked/1/x", "/chunked/100001/1", "/chunked/1/1048577", "/sse/x", "/sse/1?interval=x",
		"/status/199", "/status/600", "/headers/1001/1", "/headers/1000/2000", "/abort/x"} {
		if response, body := r.fetch(t, "GET", path, nil); response.StatusCode != 400 {
			t.Error(path, response.Status, body)
		}
	}
}

func TestDelay(t *testing.T) {
	r := start(t)
	began := time.Now()
	got := r.echo(t, "GET", "/delay/30", nil)
	if took := time.Since(began); took < 30*time.Millisecond || got.Path != "/delay/30" {
		t.Error(took, got)
	}
}

// No more work is done at a time than -workers allows.
func TestWork(t *testing.T) {
	const work, requests, workers = 30 * time.Millisecond, 4, 2
	r := start(t, "-workers", strconv.Itoa(workers))
	began := time.Now()
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			response, err := http.Get("http://" + r.address + "/work/30")
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
		})
	}
	all.Wait()
	if took := time.Since(began); took < requests/workers*work {
		t.Error(took)
	}
}

func TestHeaders(t *testing.T) {
	r := start(t)
	response, _ := r.fetch(t, "GET", "/headers/100/1000", nil)
	if len(response.Header.Get("X-Echo-1")) != 1000 || len(response.Header.Get("X-Echo-100")) != 1000 {
		t.Error(len(response.Header))
	}
}

func TestStream(t *testing.T) {
	r := start(t)
	from, to := io.Pipe()
	defer to.Close()
	request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.address+"/stream", from)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for i := range 3 {
		fmt.Fprint(to, i)
		var got [1]byte
		if _, err := io.ReadFull(response.Body, got[:]); err != nil || got[0] != byte('0'+i) {
			t.Fatal(got, err)
		}
	}
	to.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Error(rest, err)
	}
}

func TestTrailers(t *testing.T) {
	r := start(t)
	response, body := r.fetch(t, "POST", "/trailers", strings.NewReader("hello"))
	if body != "hello" || response.Trailer.Get("Echo-Length") != "5" {
		t.Error(body, response.Trailer)
	}
}

func TestEarly(t *testing.T) {
	r := start(t)
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, fields textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprintf("%d %s", code, fields.Get("Link")))
			return nil
		},
	})
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.address+"/early", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	do(t, &http.Transport{}, request)
	if len(hints) != 1 || hints[0] != "103 </style.css>; rel=preload; as=style" {
		t.Error(hints)
	}
}

func TestCloseSaysSo(t *testing.T) {
	r := start(t)
	c := dial(t, "tcp", r.address)
	fmt.Fprint(c, "GET /close HTTP/1.1\r\nHost: h\r\n\r\n")
	all, err := io.ReadAll(c)
	if err != nil || !bytes.Contains(all, []byte("\r\nConnection: close\r\n")) || !bytes.HasSuffix(all, []byte("close\n")) {
		t.Errorf("%q, %v", all, err)
	}
}

func TestAbort(t *testing.T) {
	r := start(t)
	for path, want := range map[string]int64{"/abort": 100, "/abort/7": 7} {
		response, err := http.Get("http://" + r.address + path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if n != want || response.ContentLength != want+1 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Error(path, n, response.ContentLength, err)
		}
	}
}

func TestUpgrade(t *testing.T) {
	r := start(t)
	c := dial(t, "tcp", r.address)
	fmt.Fprint(c, "GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ")
	buffered := bufio.NewReader(c)
	response, err := http.ReadResponse(buffered, nil)
	if err != nil || response.StatusCode != 101 || response.Header.Get("Upgrade") != "echo" {
		t.Fatal(response, err)
	}
	fmt.Fprint(c, "late")
	got := make([]byte, len("early late"))
	if _, err := io.ReadFull(buffered, got); err != nil || string(got) != "early late" {
		t.Error(string(got), err)
	}
}

// TestUpgradeBehindABody sends the first bytes of the new protocol behind a body, which is none of it.
func TestUpgradeBehindABody(t *testing.T) {
	c := dial(t, "tcp", start(t).address)
	fmt.Fprint(c, "POST /upgrade HTTP/1.1\r\nHost: h\r\nConnection: close, Upgrade\r\nUpgrade: other, Echo\r\n"+
		"Content-Length: 4\r\n\r\nbodyecho")
	buffered := bufio.NewReader(c)
	if response, err := http.ReadResponse(buffered, nil); err != nil || response.StatusCode != 101 {
		t.Fatal(response, err)
	}
	got := make([]byte, len("echo"))
	if _, err := io.ReadFull(buffered, got); err != nil || string(got) != "echo" {
		t.Error(string(got), err)
	}
}

func TestUpgradeIsAskedFor(t *testing.T) {
	r := start(t)
	for name, head := range map[string]string{
		"no Upgrade":        "GET /upgrade HTTP/1.1\r\nHost: h\r\n",
		"another protocol":  "GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
		"not in Connection": "GET /upgrade HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\n",
		"HTTP/1.0":          "GET /upgrade HTTP/1.0\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n",
	} {
		c := dial(t, "tcp", r.address)
		fmt.Fprint(c, head, "\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Error(name, err)
			continue
		}
		fields := response.Header
		// HTTP/1.0 knows no connection options but keep-alive.
		says := strings.Contains(fields.Get("Connection"), "upgrade") || name == "HTTP/1.0"
		if response.StatusCode != 426 || fields.Get("Upgrade") != "echo" || !says {
			t.Error(name, response.Status, fields)
		}
	}
}

func TestHealth(t *testing.T) {
	r := start(t)
	for _, step := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/health", 200}, {"POST", "/health/down", 204}, {"GET", "/health", 503}, {"POST", "/health/up", 204},
		{"GET", "/health", 200},
	} {
		if response, _ := r.fetch(t, step.method, step.path, nil); response.StatusCode != step.status {
			t.Error(step, response.Status)
		}
	}
}

func TestStats(t *testing.T) {
	r := start(t, "-name", "s")
	r.fetch(t, "GET", "/", nil)
	if _, body := r.fetch(t, "GET", "/stats", nil); !strings.HasPrefix(body, `{"name":"s","requests":2,"connections":`) {
		t.Error(body)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	r := start(t, "-unix", path)
	if r.address != path {
		t.Error(r.address)
	}
	c := dial(t, "unix", path)
	fmt.Fprint(c, "GET /bytes/3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	if all, err := io.ReadAll(c); err != nil || !bytes.HasSuffix(all, []byte("\r\n\r\n012")) {
		t.Errorf("%q, %v", all, err)
	}
}

func TestTLSSpeaksBothVersions(t *testing.T) {
	// The certificate of httptest is for 127.0.0.1 and known to its client.
	other := httptest.NewUnstartedServer(nil)
	other.EnableHTTP2 = true
	other.StartTLS()
	defer other.Close()
	certificate := other.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := start(t, "-tls-cert", certFile, "-tls-key", keyFile)
	for h2, want := range map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"} {
		transport := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: other.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs},
			Protocols:       new(http.Protocols),
		}
		transport.Protocols.SetHTTP1(!h2)
		transport.Protocols.SetHTTP2(h2)
		request, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+r.address+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, body := do(t, transport, request)
		transport.CloseIdleConnections()
		if response.Proto != want || body != "ok\n" {
			t.Error(response.Proto, body)
		}
	}
}

// TestStopLetsResponsesEnd stops the service while a response runs.
func TestStopLetsResponsesEnd(t *testing.T) {
	r := start(t)
	from, to := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.address+"/stream", from)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := new(http.Transport).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	r.stop()
	// The port is closed: then the service is about to end.
	for refused := false; !refused; {
		c, err := net.Dial("tcp", r.address)
		if refused = err != nil; !refused {
			c.Close()
		}
	}
	fmt.Fprint(to, "last words")
	to.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "last words" {
		t.Error(string(body), err)
	}
}

func TestArguments(t *testing.T) {
	for _, row := range []struct {
		args string
		err  error
		says string
	}{
		{"-help", flag.ErrHelp, "/chunked/N/SIZE"},
		{"-none", errUsage, "not defined: -none"},
		{"extra", errUsage, `unexpected argument "extra"`},
		{"-tls-cert x", errUsage, "belong together"},
		{"-workers 0", errUsage, "at least 1"},
		{"-listen 127.0.0.1:0 -unix x", errUsage, "exclude each other"},
	} {
		var said bytes.Buffer
		err := run(t.Context(), strings.Fields(row.args), io.Discard, &said)
		if !errors.Is(err, row.err) || !strings.Contains(said.String(), row.says) {
			t.Errorf("%s: %v: %s", row.args, err, &said)
		}
	}
	if err := run(t.Context(), []string{"-listen", "nowhere"}, io.Discard, io.Discard); err == nil {
		t.Error("listens nowhere")
	}
	if err := run(t.Context(), []string{"-tls-cert", "/none", "-tls-key", "/none"}, io.Discard, io.Discard); err == nil {
		t.Error("has a certificate from nowhere")
	}
}

// TestEveryPathIsDocumented keeps -help and the routes together.
func TestEveryPathIsDocumented(t *testing.T) {
	for name := range routes {
		if !strings.Contains(paths, "\n  /"+name) {
			t.Error(name, "is not in -help")
		}
	}
}

func dial(t *testing.T, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}
