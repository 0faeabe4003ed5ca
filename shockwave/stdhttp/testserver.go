package stdhttp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"

	"titan.test/shockwave"
)

// Do lets h respond to r in memory, through the engine's own connection code: for
// tests of handlers. It accepts requests from http.NewRequest and
// httptest.NewRequest. Like http.Client.Do it returns the response when its head
// has arrived, and Body must be closed; that cancels the handler's context if the
// handler is still running. Interim responses go to r's httptrace.ClientTrace.
//
// The error is [ErrBadRequest] for a request that cannot be sent, and that of reading the response if there is none,
// such as when the handler panics with [shockwave.ErrAbort] or r's context ends.
func Do(h shockwave.Handler, r *http.Request) (*http.Response, error) {
	x, err := HTTPHandler(h).(*bridge).begin(r)
	if err != nil {
		return nil, err
	}
	response, err := x.response(func(interim *http.Response) error { return traceInterim(r, interim) })
	if err != nil {
		x.end()
		if ended := r.Context().Err(); ended != nil {
			err = ended
		}
		return nil, err
	}
	// These are said of the connection in memory, which serves one request.
	response.Close = false
	response.Header.Del("Connection")
	response.Body = &doBody{response.Body, sync.OnceFunc(x.end)}
	return response, nil
}

func traceInterim(r *http.Request, interim *http.Response) error {
	trace := httptrace.ContextClientTrace(r.Context())
	if trace == nil || trace.Got1xxResponse == nil {
		return nil
	}
	return trace.Got1xxResponse(interim.StatusCode, textproto.MIMEHeader(interim.Header))
}

// A doBody ends its exchange when it is closed.
type doBody struct {
	io.Reader
	end func()
}

func (b *doBody) Close() error {
	b.end()
	return nil
}

// A TestServer is a server on a free port of the loopback interface, for tests.
type TestServer struct {
	// URL is "http://127.0.0.1:PORT" or, with TLS, "https://127.0.0.1:PORT".
	URL string
	// Server is what listens there.
	Server *shockwave.Server

	client *http.Client
	ended  chan struct{} // closed when Serve has returned
}

// NewServer serves h without TLS.
func NewServer(h shockwave.Handler) *TestServer { return Start(&shockwave.Server{Handler: h}) }

// NewTLSServer serves h with TLS, over HTTP/1.1 and HTTP/2, with a certificate
// that Client trusts.
func NewTLSServer(h shockwave.Handler) *TestServer { return StartTLS(&shockwave.Server{Handler: h}) }

// Start is [NewServer] for a server with settings of its own. It panics if there is no free port.
func Start(s *shockwave.Server) *TestServer {
	return start(s, "http", s.Serve, &http.Transport{})
}

// StartTLS is [NewTLSServer] for a server with settings of its own, to which it adds the certificate and [H2].
func StartTLS(s *shockwave.Server) *TestServer {
	certificate, err := testCertificate()
	if err != nil {
		panic(fmt.Sprintf("stdhttp: no certificate: %v", err))
	}
	if s.TLSConfig = s.TLSConfig.Clone(); s.TLSConfig == nil {
		s.TLSConfig = new(tls.Config)
	}
	s.TLSConfig.Certificates = []tls.Certificate{certificate}
	H2(s)
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate.Leaf)
	return start(s, "https", s.ServeTLS, &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: trusted},
		ForceAttemptHTTP2: true,
	})
}

func start(s *shockwave.Server, scheme string, serve func(net.Listener) error, transport *http.Transport) *TestServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("stdhttp: no port: %v", err))
	}
	t := &TestServer{
		URL:    scheme + "://" + ln.Addr().String(),
		Server: s,
		client: &http.Client{Transport: transport},
		ended:  make(chan struct{}),
	}
	go func() {
		defer close(t.ended)
		_ = serve(ln)
	}()
	return t
}

// Client returns a client that trusts the server; with TLS it prefers HTTP/2.
func (t *TestServer) Client() *http.Client { return t.client }

// closeWait bounds how long Close waits for handlers.
const closeWait = 5 * time.Second

// Close shuts the server down and the client's connections too. Handlers that do not end within 5 s lose their
// connections.
func (t *TestServer) Close() {
	t.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_ = t.Server.Shutdown(ctx)
	<-t.ended
	t.client.CloseIdleConnections()
}

// testCertificate is one for 127.0.0.1, ::1 and localhost, made once for the life of the process.
var testCertificate = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})
