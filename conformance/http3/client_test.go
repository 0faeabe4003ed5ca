package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// A client is one connection to the peer.
type client struct {
	conn *quic.Conn
	*http3.ClientConn
}

// serverConfig and clientConfig are quic-go's defaults, but for 0-RTT, which no server has to let pass.
func serverConfig() *quic.Config { return &quic.Config{Allow0RTT: false, MaxIncomingStreams: 200} }
func clientConfig() *quic.Config { return &quic.Config{MaxIncomingStreams: -1} }

func (p *peer) tls() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.cert)
	return &tls.Config{RootCAs: roots, ServerName: authority, NextProtos: []string{http3.NextProtoH3}}
}

// dial opens a connection, which closes when the test ends.
func (p *peer) dial(t *testing.T) *client {
	t.Helper()
	return speak(p.dialQUIC(t, p.tls(), clientConfig()))
}

func (p *peer) dialQUIC(t *testing.T, tls *tls.Config, config *quic.Config) *quic.Conn {
	t.Helper()
	conn, err := socket(t).Dial(patiently(t), p.address, tls, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseWithError(0x100, "") })
	return conn
}

func speak(conn *quic.Conn) *client {
	return &client{conn, (&http3.Transport{DisableCompression: true}).NewClientConn(conn)}
}

// socket is an address of the client's own.
func socket(t *testing.T) *quic.Transport {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	transport := &quic.Transport{Conn: conn}
	t.Cleanup(func() {
		transport.Close()
		conn.Close()
	})
	return transport
}

func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A request is sent as it stands: fields are names and values in turn.
func request(t *testing.T, method, path string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(patiently(t), method, "https://"+authority+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Add(fields[i], fields[i+1])
	}
	return request
}

// An answer is a whole response.
type answer struct {
	status  int
	length  int64
	header  http.Header
	body    []byte
	trailer http.Header
}

func (c *client) send(request *http.Request) (answer, error) {
	response, err := c.RoundTrip(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.ContentLength, response.Header, body, response.Trailer}, err
}

// ask wants a whole response of this status with this body.
func (c *client) ask(t *testing.T, request *http.Request, status int, body []byte) answer {
	t.Helper()
	got, err := c.send(request)
	if err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL.Path, err)
	}
	if got.status != status {
		t.Fatalf("%s %s: %d %.300q, want %d", request.Method, request.URL.Path, got.status, got.body, status)
	}
	if err := same(got.body, body); err != nil {
		t.Fatalf("%s %s: %v", request.Method, request.URL.Path, err)
	}
	return got
}

// goesOn wants the connection to serve another request, which the handler has to answer by alive.
func (c *client) goesOn(t *testing.T) {
	t.Helper()
	c.ask(t, request(t, http.MethodGet, "/alive", nil), http.StatusOK, []byte("alive"))
}

// alive answers what goesOn asks, and leaves all else to the handler.
func alive(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/alive" {
			io.WriteString(w, "alive")
			return
		}
		handler(w, r)
	}
}

// same says where two bodies differ.
func same(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("a body of %d bytes, want %d; they differ at %d", len(got), len(want), at)
}

// noise is a body that no other seed has: what belongs to another request, or elsewhere in this one, does not pass for it.
func noise(seed uint64, length int) []byte {
	body := make([]byte, length)
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	rand.NewChaCha8(key).Read(body)
	return body
}

// unsized hides from quic-go how long a body is.
type unsized struct{ io.Reader }

// field wants a field with these values, in this order.
func field(t *testing.T, fields http.Header, name string, want ...string) {
	t.Helper()
	if got := fields.Values(name); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
}

// wait waits for an event.
func wait(t *testing.T, event <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-event:
	case <-patiently(t).Done():
		t.Fatalf("%s: not within %v", what, patience)
	}
}

// streamCode is the code with which the peer has reset a stream.
func streamCode(err error) (http3.ErrCode, bool) {
	failure, ok := errors.AsType[*http3.Error](err)
	if !ok || !failure.Remote {
		return 0, false
	}
	_, ok = errors.AsType[*quic.StreamError](err)
	return failure.ErrorCode, ok
}
