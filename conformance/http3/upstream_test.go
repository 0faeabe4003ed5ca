package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// An origin is quic-go as the server behind the gateway.
type origin struct {
	address *net.UDPAddr
	server  *http3.Server
	socket  *net.UDPConn
	// connections counts those that were opened.
	connections atomic.Int32
}

// startOrigin serves HTTP/3 at that port, or at a free one where that is 0.
func startOrigin(t *testing.T, certificate certificate, port int, handler http.HandlerFunc) *origin {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	origin := &origin{address: socket.LocalAddr().(*net.UDPAddr), socket: socket}
	origin.server = &http3.Server{
		Handler:    handler,
		TLSConfig:  &tls.Config{Certificates: []tls.Certificate{certificate.pair(t)}},
		QUICConfig: serverConfig(),
		ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context {
			origin.connections.Add(1)
			return ctx
		},
	}
	go origin.server.Serve(socket)
	t.Cleanup(func() {
		origin.server.Close()
		socket.Close()
	})
	return origin
}

func (c certificate) pair(t *testing.T) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// A front is a gateway that speaks HTTP/1.1 to the test, and HTTP/3 to what is behind it.
type front struct {
	*peer
	url  string
	http *http.Client
}

const before = `
workers: { threads: 1 }
listeners: "%[1]s"
admin: off
timeouts: { connect: 2s }
routes: [{ prefix: /, upstream: site }]
upstreams:
  site: { endpoints: "%[2]s", protocol: %[3]s, tls: { ca: site.pem, name: %[4]s } }
`

// startFront runs a gateway in front of an address that trusts the certificate.
func startFront(t *testing.T, certificate certificate, behind fmt.Stringer, protocol string) *front {
	t.Helper()
	if judgesItself() {
		t.Skip("quic-go is no gateway")
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "site.pem"), certificate.cert)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	front := &front{peer: &peer{}, url: "http://" + address}
	front.runTitanWith(t, folder, fmt.Sprintf(before, address, behind, protocol, authority))
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 200}
	t.Cleanup(transport.CloseIdleConnections)
	front.http = &http.Client{Transport: transport}
	return front
}

func (f *front) request(t *testing.T, method, path string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(patiently(t), method, f.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Add(fields[i], fields[i+1])
	}
	return request
}

func (f *front) send(request *http.Request) (answer, error) {
	response, err := f.http.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.ContentLength, response.Header, body, response.Trailer}, err
}

// ask wants a whole response of this status with this body, whatever that is where it is nil.
func (f *front) ask(t *testing.T, request *http.Request, status int, body []byte) answer {
	t.Helper()
	got, err := f.send(request)
	if err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL.Path, err)
	}
	if got.status != status {
		t.Fatalf("%s %s: %d %.300q, want %d", request.Method, request.URL.Path, got.status, got.body, status)
	}
	if body != nil {
		if err := same(got.body, body); err != nil {
			t.Fatalf("%s %s: %v", request.Method, request.URL.Path, err)
		}
	}
	return got
}

func TestUpstreamMessages(t *testing.T) {
	heads := make(chan *http.Request, 1)
	certificate := makeCertificate(t)
	origin := startOrigin(t, certificate, 0, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Twice"] = []string{"one", "two"}
		w.Header().Set("Trailer", "X-Sum")
		if r.URL.Path == "/hints" {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		}
		if status, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
			w.WriteHeader(status)
		}
		echo(w, r)
		w.Header().Set("X-Sum", "it is:"+r.Trailer.Get("X-Own"))
		heads <- r
	})
	front := startFront(t, certificate, origin.address, "h3")
	get := front.request(t, http.MethodGet, "/a%20b/%C3%A9;c?x=%2F", nil, "X-Own", "its value", "X-Empty", "")
	got := front.ask(t, get, http.StatusOK, []byte{})
	field(t, got.header, "X-Twice", "one", "two")
	head := <-heads
	if head.Proto != "HTTP/3.0" || head.RequestURI != "/a%20b/%C3%A9;c?x=%2F" || head.Method != http.MethodGet {
		t.Errorf("the origin got %s %s over %s", head.Method, head.RequestURI, head.Proto)
	}
	field(t, head.Header, "X-Own", "its value")
	field(t, head.Header, "X-Empty", "")
	field(t, head.Header, "X-Forwarded-For", "127.0.0.1")

	body := noise(1, 10<<20)
	front.ask(t, front.request(t, http.MethodPost, "/", bytes.NewReader(body)), http.StatusOK, body)
	if head := <-heads; head.ContentLength != int64(len(body)) {
		t.Errorf("the origin is told of %d bytes", head.ContentLength)
	}
	unsized := front.request(t, http.MethodPost, "/", unsized{bytes.NewReader(body)}, "TE", "trailers")
	unsized.Trailer = http.Header{"X-Own": {"own"}}
	got = front.ask(t, unsized, http.StatusOK, body)
	field(t, got.trailer, "X-Sum", "it is:own")
	if head := <-heads; head.ContentLength != -1 {
		t.Errorf("the origin is told of %d bytes", head.ContentLength)
	}
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		front.ask(t, front.request(t, http.MethodGet, fmt.Sprintf("/%d", status), nil), status, []byte{})
		<-heads
	}
	got = front.ask(t, front.request(t, http.MethodHead, "/", nil), http.StatusOK, []byte{})
	field(t, got.header, "X-Twice", "one", "two")
	<-heads

	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(status int, fields textproto.MIMEHeader) error {
		hints = append(hints, fields.Get("Link"))
		return nil
	}}
	hinted := front.request(t, http.MethodGet, "/hints", nil)
	front.ask(t, hinted.WithContext(httptrace.WithClientTrace(hinted.Context(), trace)), http.StatusOK, []byte{})
	if <-heads; len(hints) != 1 || hints[0] != "</a.css>; rel=preload" {
		t.Errorf("hints %q", hints)
	}
	if opened := origin.connections.Load(); opened != 1 {
		t.Errorf("%d connections for one request after the other", opened)
	}
}

func TestUpstreamIsShared(t *testing.T) {
	const many = 100
	var all sync.WaitGroup
	all.Add(many)
	certificate := makeCertificate(t)
	origin := startOrigin(t, certificate, 0, func(w http.ResponseWriter, r *http.Request) {
		// Each waits for all others: they have to be there at the same time.
		all.Done()
		all.Wait()
		seed, _ := strconv.Atoi(r.URL.Path[1:])
		w.Write(noise(uint64(seed), 30_000))
	})
	front := startFront(t, certificate, origin.address, "h3")
	var asked sync.WaitGroup
	for number := range many {
		asked.Go(func() {
			request := front.request(t, http.MethodGet, fmt.Sprintf("/%d", number), nil)
			got, err := front.send(request)
			if err == nil {
				err = same(got.body, noise(uint64(number), 30_000))
			}
			if err != nil {
				t.Errorf("request %d: %v", number, err)
			}
		})
	}
	asked.Wait()
	if opened := origin.connections.Load(); opened != 1 {
		t.Errorf("%d connections for %d requests at once", opened, many)
	}
}

func TestUpstreamFailures(t *testing.T) {
	arrived, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
	certificate := makeCertificate(t)
	origin := startOrigin(t, certificate, 0, alive(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/before":
			panic(http.ErrAbortHandler)
		case "/within":
			w.Header().Set("Content-Length", "20000")
			w.Write(noise(0, 10_000))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/slow":
			arrived <- struct{}{}
			<-r.Context().Done()
			cancelled <- struct{}{}
		}
	}))
	front := startFront(t, certificate, origin.address, "h3")
	front.ask(t, front.request(t, http.MethodGet, "/before", nil), http.StatusBadGateway, nil)
	// A reset may overtake what was sent before it: then there is nothing yet to break off.
	if got, err := front.send(front.request(t, http.MethodGet, "/within", nil)); err == nil && got.status == http.StatusOK {
		t.Errorf("a response that breaks off has come whole: %d with %d bytes", got.status, len(got.body))
	}
	slow := front.request(t, http.MethodGet, "/slow", nil)
	ctx, cancel := context.WithCancel(slow.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := front.send(slow.WithContext(ctx)); err == nil {
		t.Error("a response to a request that was cancelled")
	}
	wait(t, cancelled, "the origin is told that the client has gone")
	front.ask(t, front.request(t, http.MethodGet, "/alive", nil), http.StatusOK, []byte("alive"))
	if opened := origin.connections.Load(); opened != 1 {
		t.Errorf("%d connections: what fails on a stream is no reason for another", opened)
	}
}

// RFC 9114 section 5.2: a server that leaves says so, and what it does not serve goes to its successor.
func TestUpstreamLeaves(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	certificate := makeCertificate(t)
	first := startOrigin(t, certificate, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(arrived)
			<-goOn
		}
		io.WriteString(w, "first")
	})
	front := startFront(t, certificate, first.address, "h3")
	slow := make(chan error, 1)
	go func() {
		got, err := front.send(front.request(t, http.MethodGet, "/slow", nil))
		if err == nil {
			err = same(got.body, []byte("first"))
		}
		slow <- err
	}()
	wait(t, arrived, "the request")
	left := make(chan error, 1)
	go func() { left <- first.server.Shutdown(patiently(t)) }()
	for {
		// Until the gateway has been told, requests go over the connection, and are refused there or served.
		got, err := front.send(front.request(t, http.MethodGet, "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		if got.status != http.StatusOK {
			break
		}
	}
	close(goOn)
	if err := <-slow; err != nil {
		t.Errorf("the request that was under way: %v", err)
	}
	if err := <-left; err != nil {
		t.Errorf("the first origin does not end: %v", err)
	}
	first.socket.Close()
	second := startOrigin(t, certificate, first.address.Port, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "second")
	})
	front.ask(t, front.request(t, http.MethodGet, "/", nil), http.StatusOK, []byte("second"))
	if opened := second.connections.Load(); opened != 1 {
		t.Errorf("%d connections to the second origin", opened)
	}
}

// Nobody listens there: the kernel says so, and no timeout has to pass.
func TestUpstreamIsNotThere(t *testing.T) {
	t.Parallel()
	certificate := makeCertificate(t)
	front := startFront(t, certificate, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: freePort(t)}, "h3")
	front.ask(t, front.request(t, http.MethodGet, "/", nil), http.StatusBadGateway, nil)
	front.says(t, "refused")
}

// An origin that ends without a word, as one that is killed does.
func TestUpstreamDies(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	certificate := makeCertificate(t)
	first := startOrigin(t, certificate, 0, alive(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	front := startFront(t, certificate, first.address, "h3")
	front.ask(t, front.request(t, http.MethodGet, "/alive", nil), http.StatusOK, []byte("alive"))
	failed := make(chan error, 1)
	go func() {
		got, err := front.send(front.request(t, http.MethodGet, "/", nil))
		if err == nil && got.status == http.StatusOK {
			err = fmt.Errorf("a response of an origin that is dead")
		}
		failed <- err
	}()
	wait(t, arrived, "the request")
	first.socket.Close()
	if err := <-failed; err != nil {
		t.Error(err)
	}
	startOrigin(t, certificate, first.address.Port, alive(nil))
	front.ask(t, front.request(t, http.MethodGet, "/alive", nil), http.StatusOK, []byte("alive"))
}

// startSecure serves HTTP/2 over TLS at that port.
func startSecure(t *testing.T, certificate certificate, port int, handler http.HandlerFunc) {
	t.Helper()
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate.pair(t)}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
}

func TestUpstreamFallsBack(t *testing.T) {
	t.Parallel()
	certificate, port := makeCertificate(t), freePort(t)
	address := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	startSecure(t, certificate, port, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	t.Run("where it may", func(t *testing.T) {
		front := startFront(t, certificate, address, "[h3, h2]")
		for range 3 {
			front.ask(t, front.request(t, http.MethodGet, "/", nil), http.StatusOK, []byte("HTTP/2.0"))
		}
		front.says(t, "code=without-quic")
	})
	t.Run("where nothing responds", func(t *testing.T) {
		// What is sent there lies in the queue of a socket that nobody reads.
		silent, err := net.ListenUDP("udp4", address)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		front := startFront(t, certificate, address, "[h3, h2]")
		front.ask(t, front.request(t, http.MethodGet, "/", nil), http.StatusOK, []byte("HTTP/2.0"))
		front.says(t, fmt.Sprintf("%s: http/3 does not get through", address))
	})
	t.Run("not where it may not", func(t *testing.T) {
		front := startFront(t, certificate, address, "h3")
		front.ask(t, front.request(t, http.MethodGet, "/", nil), http.StatusBadGateway, nil)
	})
	t.Run("not where somebody else responds", func(t *testing.T) {
		startOrigin(t, makeCertificate(t), port, func(http.ResponseWriter, *http.Request) {
			t.Error("a request has come to one that is not the endpoint")
		})
		front := startFront(t, certificate, address, "[h3, h2]")
		front.ask(t, front.request(t, http.MethodGet, "/", nil), http.StatusBadGateway, nil)
		front.says(t, "invalid peer certificate")
	})
}
