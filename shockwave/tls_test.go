package shockwave

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// certificate makes one for tests.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// listeningTLS is listening with TLS.
func listeningTLS(t *testing.T, s *Server) net.Addr {
	t.Helper()
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.ServeTLS(ln)
	t.Cleanup(func() { s.Close() })
	return ln.Addr()
}

func dialTLS(t *testing.T, addr net.Addr, protocols ...string) (*peer, *tls.Conn) {
	t.Helper()
	p := dial(t, addr)
	secure := tls.Client(p.conn, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	p.conn = secure
	p.from.Reset(secure)
	return p, secure
}

func TestTLS(t *testing.T) {
	addr := listeningTLS(t, &Server{Handler: func(c *Ctx) {
		if c.TLS() == nil || c.TLS().NegotiatedProtocol != "http/1.1" || c.Clone().TLS == nil {
			t.Errorf("TLS state: %+v", c.TLS())
		}
		copyBody(c)
	}})
	body := strings.Repeat("0123456789", 20000)
	p, _ := dialTLS(t, addr, "h2", "http/1.1")
	for range 2 {
		go io.WriteString(p.conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"+body)
		p.expects(200, body)
	}
}

// An idle connection owns no buffer, in TLS either.
func TestIdleTLSHasNoBuffer(t *testing.T) {
	pair := certificate(t)
	synctest.Test(t, func(t *testing.T) {
		var c *conn
		s := &Server{Handler: func(x *Ctx) {
			c = x.conn
			// Longer than any timeout: none is about handlers.
			time.Sleep(time.Hour)
			copyBody(x)
		}}
		client, server := newDuplex()
		secure := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
		p := &peer{t: t, conn: secure, from: bufio.NewReader(secure), served: make(chan struct{})}
		go func() {
			defer close(p.served)
			s.ServeConn(tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}}))
		}()
		for range 3 {
			p.sends("P")
			p.sends("OST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na")
			p.sends("b" + get + "GET /")
			p.expects(200, "ab")
			p.expects(200, "")
			p.sends(" HTTP/1.1\r\nHost: a\r\n\r\n")
			p.expects(200, "")
			if synctest.Wait(); c.ctx != nil {
				t.Error("it has a Ctx")
			}
		}
		s.Close()
		<-p.served
		client.Close()
	})
}

func TestNextProto(t *testing.T) {
	s := &Server{Handler: hello}
	s.NextProto = map[string]func(*Server, *tls.Conn){"x": func(of *Server, conn *tls.Conn) {
		if of != s {
			t.Error("another server")
		}
		io.WriteString(conn, "this is x")
	}}
	addr := listeningTLS(t, s)
	p, secure := dialTLS(t, addr, "x", "http/1.1")
	if got, err := io.ReadAll(p.conn); string(got) != "this is x" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if protocol := secure.ConnectionState().NegotiatedProtocol; protocol != "x" {
		t.Errorf("negotiated %q", protocol)
	}
	p, _ = dialTLS(t, addr)
	p.sends(get)
	p.expects(200, "/")
}

func TestContextEndsWhenTheClientLeavesTLS(t *testing.T) {
	ended := make(chan error)
	addr := listeningTLS(t, &Server{Handler: func(c *Ctx) {
		ctx := c.Context()
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}})
	p, _ := dialTLS(t, addr)
	p.sends(get)
	p.conn.Close()
	if cause := <-ended; cause != ErrClientGone {
		t.Errorf("got %v", cause)
	}
}

func TestListenAndServeTLSNeedsItsFiles(t *testing.T) {
	if err := (&Server{Handler: hello}).ListenAndServeTLS("127.0.0.1:0", "missing", "missing"); err == nil {
		t.Error("no error")
	}
}

func TestTLSNeedsACertificate(t *testing.T) {
	never := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
	asks := func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil }
	for name, c := range map[string]struct {
		config *tls.Config
		want   error
	}{
		"no-configuration": {nil, errNoCertificate},
		"none":             {&tls.Config{}, errNoCertificate},
		"certificates":     {&tls.Config{Certificates: []tls.Certificate{certificate(t)}}, ErrServerClosed},
		"one-for-each":     {&tls.Config{GetCertificate: never}, ErrServerClosed},
		"all-for-each":     {&tls.Config{GetConfigForClient: asks}, ErrServerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Handler: hello, TLSConfig: c.config}
			s.Close()
			if err := s.ListenAndServeTLS("127.0.0.1:0", "", ""); err != c.want {
				t.Errorf("ListenAndServeTLS: %v", err)
			}
			ln := &queue{closed: make(chan bool)}
			if err := s.ServeTLS(ln); err != c.want {
				t.Errorf("ServeTLS: %v", err)
			}
			select {
			case <-ln.closed:
			default:
				t.Error("the listener is open")
			}
		})
	}
}

// What any client can bring about is logged only at the level that asks for it.
func TestFailedHandshakeIsLogged(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var log bytes.Buffer
		s := &Server{Handler: hello, ErrorLog: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))}
		err := s.ServeConn(tls.Server(&tape{in: strings.NewReader(get)}, &tls.Config{}))
		if err == nil {
			t.Error("it succeeded")
		}
		logged := strings.Contains(log.String(), "TLS handshake failed") && strings.Contains(log.String(), "127.0.0.1:50000")
		if logged != want || !want && log.Len() > 0 {
			t.Errorf("%v: %q", level, log.String())
		}
	}
}
