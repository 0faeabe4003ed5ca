package stdhttp

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"titan.test/shockwave"
	"titan.test/shockwave/parse"
)

// idleDefault is the default of shockwave.Timeouts.Idle.
const idleDefault = 75 * time.Second

// maxStreams bounds the streams of one connection: each has three goroutines and the buffers of one request. It is what
// RFC 9113 section 6.5.2 names as the least to recommend.
const maxStreams = 100

// Bytes of bodies that net/http keeps until handlers read them.
const (
	bodiesPerConnection = 1 << 20
	bodyPerStream       = 256 << 10
)

// H2 lets s serve HTTP/2 beside HTTP/1.1 on its TLS ports: a connection for which
// ALPN chose h2 is served by the standard library's implementation, and its
// requests by s.Handler through [ServerHandler]. Call it before s serves and
// after its other fields are set.
//
// Shutdown of s lets streams end, closes their ShuttingDown channel and refuses
// new ones; Close cuts the connections.
//
// A connection has at most 100 streams at once, and buffers at most 1 MiB of
// bodies that no handler has read yet, 256 KiB of one stream. Of the Limits, Head
// bounds HTTP/2 header lists, and Connections counts a connection as one,
// whatever its streams; Target, Fields, Body, Trailers, Drain, Linger,
// ResponseBuffer and ResponseFields apply to each stream. ChunkLine and
// RequestsPerConnection do not apply.
//
// Of the Timeouts, Body, MinBodyRate, BodyGrace and Linger apply to each stream.
// Write is the time in which a stream must take 16 KiB of its response, or it is
// reset, and the longest pause in which the connection takes nothing, before it
// is closed. Idle is the longest pause between two streams. Head applies only to
// the TLS handshake: a header list that is not complete is bounded by its length,
// and by Idle while there is no other stream.
func H2(s *shockwave.Server) {
	if s.NextProto == nil {
		s.NextProto = make(map[string]func(*shockwave.Server, *tls.Conn))
	}
	start := sync.OnceValue(func() *h2 { return startH2(s) })
	s.NextProto["h2"] = func(_ *shockwave.Server, conn *tls.Conn) { start().serve(conn) }
}

// An h2 is the net/http server that serves the HTTP/2 connections of one Shockwave server.
type h2 struct {
	server *http.Server

	mu    sync.Mutex
	ended map[net.Conn]chan struct{} // closed when the server has left the connection
}

// startH2 makes the server and lets it end with s.
func startH2(s *shockwave.Server) *h2 {
	log := s.ErrorLog
	if log == nil {
		log = slog.Default()
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	h := &h2{ended: make(map[net.Conn]chan struct{})}
	h.server = &http.Server{
		Handler:        ServerHandler(s),
		Protocols:      protocols,
		MaxHeaderBytes: cmp.Or(s.Limits.Head, parse.DefaultHead),
		IdleTimeout:    cmp.Or(s.Timeouts.Idle, idleDefault),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerConnection: bodiesPerConnection,
			MaxReceiveBufferPerStream:     bodyPerStream,
			WriteByteTimeout:              max(cmp.Or(s.Timeouts.Write, writeDefault), 0),
		},
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState: h.track,
	}
	go s.Serve(bell(func() {
		// This sends GOAWAY and waits; s waits too, for its connections, as long as its own caller wants.
		go h.server.Shutdown(context.Background())
	}))
	return h
}

// A bell is a listener that no client can reach. A server closes its listeners when it is shut down or closed, and by
// that tells the holder of this one.
func bell(rung func()) net.Listener {
	b := &bellListener{closed: make(chan struct{})}
	b.ring = sync.OnceFunc(func() {
		close(b.closed)
		rung()
	})
	return b
}

type bellListener struct {
	closed chan struct{}
	ring   func()
}

func (b *bellListener) Accept() (net.Conn, error) {
	<-b.closed
	return nil, net.ErrClosed
}

func (b *bellListener) Close() error {
	b.ring()
	return nil
}

func (b *bellListener) Addr() net.Addr { return named("none") }

// serve serves one connection and returns when it is closed. To net/http it is a listener that accepts once: there is
// no other way to hand a connection to a server that Shutdown reaches.
func (h *h2) serve(conn *tls.Conn) {
	once := &single{conn: conn, ended: make(chan struct{}), closed: make(chan struct{})}
	h.mu.Lock()
	h.ended[conn] = once.ended
	h.mu.Unlock()
	_ = h.server.Serve(once)
	if once.accepted {
		// Shutdown ends Serve at once, but not the streams.
		<-once.ended
	}
	h.mu.Lock()
	delete(h.ended, conn)
	h.mu.Unlock()
}

func (h *h2) track(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.ended[conn])
}

// A single is a listener whose one connection is there already.
type single struct {
	conn     net.Conn
	accepted bool          // only Serve's goroutine accepts
	ended    chan struct{} // closed with the connection
	closed   chan struct{} // closed with the listener
	close    sync.Once
}

func (l *single) Accept() (net.Conn, error) {
	if !l.accepted {
		l.accepted = true
		return l.conn, nil
	}
	select {
	case <-l.ended:
		return nil, io.EOF
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *single) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
