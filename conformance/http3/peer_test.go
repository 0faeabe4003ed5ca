// Package http3 has quic-go judge a gateway: what its client sends over HTTP/3 (RFC 9114) and gets is compared octet for
// octet with what the upstream behind the gateway gets and sends, and the rules of the protocol are broken one by one.
//
// TITAN_PROGRAM is the gateway's program. With HTTP3_PEER=quic-go the server of quic-go itself is judged, which
// shows that a failure is not this client's. HTTP3_CURL is a curl with HTTP/3, which judges as well.
package http3

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
)

const (
	// patience is how long anything may take; no test waits so long when all is well.
	patience = 20 * time.Second
	// authority is the host of all requests, and the name in the certificate.
	authority = "site.test"
	// headLimit is the largest head of a request that the peer takes.
	headLimit = 16 << 10
)

func TestMain(m *testing.M) {
	if os.Getenv("TITAN_PROGRAM") == "" && !judgesItself() {
		fmt.Println("left out: TITAN_PROGRAM is the gateway to judge, which `make http3` sets")
		return
	}
	os.Exit(m.Run())
}

func judgesItself() bool { return os.Getenv("HTTP3_PEER") == "quic-go" }

// A peer is the server that is judged.
type peer struct {
	address *net.UDPAddr
	// cert is the certificate that it has, in PEM.
	cert []byte
	// drain tells it to end once the requests that are under way have ended.
	drain func()
	// ended waits for that; an error says how else it has ended.
	ended func() error
	// says waits until it has written that, in whatever case.
	says func(t *testing.T, what string)
}

// start runs a peer in front of a handler until the test ends.
func start(t *testing.T, handler http.HandlerFunc) *peer {
	t.Helper()
	return startWith(t, "", handler)
}

// startWith runs one whose listener has this setting.
func startWith(t *testing.T, setting string, handler http.HandlerFunc) *peer {
	t.Helper()
	certificate := makeCertificate(t)
	port := freePort(t)
	peer := &peer{address: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, cert: certificate.cert}
	if judgesItself() {
		peer.serveQuicGo(t, certificate, handler)
	} else {
		peer.runTitan(t, certificate, setting, startUpstream(t, handler))
	}
	return peer
}

// startUpstream serves HTTP/1.1, and HTTP/2 to those who start with it; it returns its address.
func startUpstream(t *testing.T, handler http.Handler) string {
	upstream := httptest.NewUnstartedServer(handler)
	upstream.Config.ErrorLog = log.New(io.Discard, "", 0)
	upstream.Config.Protocols = new(http.Protocols)
	upstream.Config.Protocols.SetHTTP1(true)
	upstream.Config.Protocols.SetUnencryptedHTTP2(true)
	upstream.Start()
	t.Cleanup(upstream.Close)
	return upstream.Listener.Addr().String()
}

// configuration has two ways to the upstream: gRPC needs HTTP/2, and everything else goes over HTTP/1.1. With several
// threads, packets of a connection arrive at others than its own when the client's address changes.
const configuration = `
workers: { threads: 4 }
listeners:
  - address: "%[1]s"
    protocols: [h3, h2, h1]
    tls: { certificates: { cert: site.pem, key: site.key } }
    %[4]s
admin: off
limits: { head: %[2]d }
routes:
  - { prefix: /calls.Echo, upstream: calls }
  - { prefix: /, upstream: site }
upstreams:
  site: "%[3]s"
  calls: { endpoints: "%[3]s", protocol: h2 }
`

func (p *peer) runTitan(t *testing.T, certificate certificate, setting, upstream string) {
	t.Helper()
	folder := t.TempDir()
	write(t, filepath.Join(folder, "site.pem"), certificate.cert)
	write(t, filepath.Join(folder, "site.key"), certificate.key)
	p.runTitanWith(t, folder, fmt.Sprintf(configuration, p.address, headLimit, upstream, setting))
}

// runTitanWith runs a gateway with this configuration, in a folder with what that names.
func (p *peer) runTitanWith(t *testing.T, folder, configuration string) {
	t.Helper()
	file := filepath.Join(folder, "titan.yaml")
	write(t, file, []byte(configuration))

	process := exec.Command(os.Getenv("TITAN_PROGRAM"), "--config", file)
	process.Dir = folder
	told := &output{ready: make(chan struct{}), more: make(chan struct{})}
	process.Stdout, process.Stderr = told, told
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { process.Wait(); close(exited) }()
	drains := false
	p.drain = func() {
		drains = true
		process.Process.Signal(syscall.SIGTERM)
	}
	p.ended = func() error {
		select {
		case <-exited:
			if status := process.ProcessState.ExitCode(); status != 0 {
				return fmt.Errorf("its exit status is %d", status)
			}
			return nil
		case <-time.After(patience):
			return fmt.Errorf("it runs %v after it was told to end", patience)
		}
	}
	t.Cleanup(func() {
		select {
		case <-exited:
			if !drains {
				t.Errorf("the gateway has ended by itself: %v", process.ProcessState)
			}
		default:
			process.Process.Kill()
			<-exited
		}
		if t.Failed() {
			t.Logf("the gateway said:\n%s", told)
		}
	})
	p.says = told.waits
	select {
	case <-told.ready:
	case <-exited:
		t.Fatal("the gateway has ended at once")
	case <-time.After(patience):
		t.Fatal("the gateway does not say that it listens")
	}
}

// An output is what a process says; ready closes when it says that it listens, and more when it says more.
type output struct {
	lock  sync.Mutex
	text  bytes.Buffer
	ready chan struct{}
	told  bool
	more  chan struct{}
}

func (o *output) Write(piece []byte) (int, error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.text.Write(piece)
	close(o.more)
	o.more = make(chan struct{})
	if !o.told && bytes.Contains(o.text.Bytes(), []byte("listening on ")) {
		o.told = true
		close(o.ready)
	}
	return len(piece), nil
}

func (o *output) waits(t *testing.T, what string) {
	t.Helper()
	for {
		o.lock.Lock()
		has, more := bytes.Contains(bytes.ToLower(o.text.Bytes()), []byte(what)), o.more
		o.lock.Unlock()
		if has {
			return
		}
		wait(t, more, what)
	}
}

func (o *output) String() string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.text.String()
}

func (p *peer) serveQuicGo(t *testing.T, certificate certificate, handler http.Handler) {
	t.Helper()
	socket, err := net.ListenUDP("udp4", p.address)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate.cert, certificate.key)
	if err != nil {
		t.Fatal(err)
	}
	server := &http3.Server{
		Handler:        handler,
		TLSConfig:      &tls.Config{Certificates: []tls.Certificate{pair}},
		QUICConfig:     serverConfig(),
		MaxHeaderBytes: headLimit,
	}
	go server.Serve(socket)
	ended := make(chan error, 1)
	p.drain = func() { go func() { ended <- server.Shutdown(context.Background()) }() }
	p.ended = func() error { return <-ended }
	t.Cleanup(func() {
		server.Close()
		socket.Close()
	})
}

type certificate struct{ cert, key []byte }

func makeCertificate(t *testing.T) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{authority},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}
}

// freePort finds one that is free for TCP and for UDP.
func freePort(t *testing.T) int {
	t.Helper()
	for range 20 {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		listener.Close()
		if err == nil {
			socket.Close()
			return port
		}
	}
	t.Fatal("no port is free for both TCP and UDP")
	return 0
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
