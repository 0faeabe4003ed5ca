package shockwave

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"titan.test/shockwave/parse"
)

// A Handler responds to one request. It runs on the connection's goroutine; the
// connection reads no further request until it has returned. The Ctx belongs to
// it until then.
//
// A panic in it is logged with its stack, becomes a 500 if nothing was sent, and
// closes the connection. A panic with ErrAbort closes it silently.
type Handler func(*Ctx)

// A Server serves HTTP/1.x on connections. Its fields must not change once it
// serves. The zero value with a Handler is ready to use.
type Server struct {
	// Handler responds to requests. If it is nil, serving panics at once.
	Handler Handler
	// Limits bounds what a client can make long.
	Limits Limits
	// Timeouts bounds each wait for a client.
	Timeouts Timeouts
	// TLSConfig is what ListenAndServeTLS and ServeTLS use; they add ALPN names.
	TLSConfig *tls.Config
	// NextProto takes over TLS connections for which ALPN chose the name that is
	// the key, such as "h2": the function serves the connection and returns when
	// it is done. The engine closes it then.
	NextProto map[string]func(*Server, *tls.Conn)
	// BaseContext is the parent of the Context of every request. Default:
	// context.Background().
	BaseContext context.Context
	// ErrorLog gets panics of handlers and failures to accept, and at debug level
	// TLS handshakes that fail. Default: slog.Default().
	ErrorLog *slog.Logger
	// Name is the value of the Server field; "" sends none. An invalid value makes
	// the server panic when it starts.
	Name string

	once     sync.Once
	limits   Limits // with defaults
	timeouts Timeouts
	base     context.Context
	log      *slog.Logger
	pools    pools
	clock    clock

	stopping chan struct{} // closed when closing is set
	closing  atomic.Bool   // Shutdown or Close was called
	closed   atomic.Bool   // Close was called

	mu        sync.Mutex // guards what follows
	conns     []*conn
	room      *sync.Cond // told when a connection ends
	listeners []net.Listener
	drained   chan struct{} // closed when the last connection ends; nil if nobody waits
}

// ListenAndServe serves handler on a TCP address such as ":8080" with the
// default limits and timeouts. It always returns an error.
func ListenAndServe(addr string, handler Handler) error {
	return (&Server{Handler: handler}).ListenAndServe(addr)
}

// ListenAndServe listens on a TCP address and serves it; see Serve. An empty
// address is ":80".
func (s *Server) ListenAndServe(addr string) error {
	ln, err := listen(addr, ":80")
	if err != nil {
		return err
	}
	return s.Serve(ln)
}

// ListenAndServeTLS listens on a TCP address and serves it with TLS. The
// certificate and key files may be "" if TLSConfig has certificates, or a way to
// get them; otherwise they are required. An empty address is ":443".
func (s *Server) ListenAndServeTLS(addr, certFile, keyFile string) error {
	config := s.tlsConfig()
	if certFile != "" || keyFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return err
		}
		config.Certificates = append(slices.Clip(config.Certificates), pair)
	}
	if !hasCertificate(config) {
		return errNoCertificate
	}
	ln, err := listen(addr, ":443")
	if err != nil {
		return err
	}
	return s.Serve(tls.NewListener(ln, config))
}

// ServeTLS is Serve with TLS on every connection, as TLSConfig says. If that has
// neither certificates nor a way to get them, it returns an error.
func (s *Server) ServeTLS(ln net.Listener) error {
	config := s.tlsConfig()
	if !hasCertificate(config) {
		ln.Close()
		return errNoCertificate
	}
	return s.Serve(tls.NewListener(ln, config))
}

// hasCertificate reports whether not every handshake must fail.
func hasCertificate(config *tls.Config) bool {
	return len(config.Certificates) > 0 || config.GetCertificate != nil || config.GetConfigForClient != nil
}

var errNoCertificate = errors.New("shockwave: TLS without a certificate")

func listen(addr, fallback string) (net.Listener, error) {
	if addr == "" {
		addr = fallback
	}
	return net.Listen("tcp", addr)
}

// tlsConfig is TLSConfig with the names of the protocols that are served.
func (s *Server) tlsConfig() *tls.Config {
	config := s.TLSConfig.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for name := range s.NextProto {
		if !slices.Contains(config.NextProtos, name) {
			config.NextProtos = append(slices.Clip(config.NextProtos), name)
		}
	}
	if !slices.Contains(config.NextProtos, "http/1.1") {
		config.NextProtos = append(slices.Clip(config.NextProtos), "http/1.1")
	}
	return config
}

// Serve accepts connections from ln and serves each on a goroutine of its own,
// until ln fails or the server is shut down: then it returns ErrServerClosed. It
// closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.needHandler()
	s.begin()
	defer ln.Close()
	if !s.addListener(ln) {
		return ErrServerClosed
	}
	defer s.removeListener(ln)
	for pause := time.Duration(0); ; {
		if !s.awaitRoom() {
			return ErrServerClosed
		}
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			// Counted here, not by its goroutine: the next turn must see it.
			if c := s.enter(nc); c != nil {
				go c.run()
			}
		case s.closing.Load():
			return ErrServerClosed
		case !isTemporary(err):
			return err
		default:
			// Descriptors are used up, or the client is gone already: neither is a
			// reason to stop, and to try again at once would be a busy loop.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accept failed", "error", err, "pause", pause)
			if !s.pause(pause) {
				return ErrServerClosed
			}
		}
	}
}

func isTemporary(err error) bool {
	temporary, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && temporary.Temporary()
}

// ServeConn serves one connection and returns when it is closed or hijacked. For
// a *tls.Conn it does the handshake first. The error is nil if the connection
// ended between two messages.
func (s *Server) ServeConn(nc net.Conn) error {
	s.needHandler()
	s.begin()
	c := s.enter(nc)
	if c == nil {
		return ErrServerClosed
	}
	return c.run()
}

// Shutdown stops accepting, closes idle connections and waits until every running
// response, which then says Connection: close, is sent. If ctx ends first,
// Shutdown closes what is left, as Close does, and returns ctx's error. It does
// not wait for hijacked connections.
//
// Contexts of running requests end only then, so that a handler that passes its
// context on, to a database for example, has time to finish. A handler whose
// response never ends by itself must watch ShuttingDown.
func (s *Server) Shutdown(ctx context.Context) error {
	s.begin()
	drained := s.beginShutdown()
	select {
	case <-drained:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopClock()
		return nil
	case <-ctx.Done():
		s.Close()
		return ctx.Err()
	}
}

// beginShutdown gives a channel that is closed when no connection is left.
func (s *Server) beginShutdown() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopAccepting()
	for _, c := range s.conns {
		progress := c.progress.Load()
		switch phase(progress & (1<<phaseBits - 1)) {
		case phaseFresh, phaseIdle:
			c.interrupt(progress)
		}
	}
	if s.drained == nil {
		s.drained = make(chan struct{})
		if len(s.conns) == 0 {
			close(s.drained)
		}
	}
	return s.drained
}

// ShuttingDown returns a channel that is closed when Shutdown or Close begins.
func (s *Server) ShuttingDown() <-chan struct{} {
	s.begin()
	return s.stopping
}

// Close closes all listeners and connections at once; contexts of running
// requests are cancelled. It does not wait for their handlers.
func (s *Server) Close() error {
	s.begin()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.stopAccepting()
	s.stopClock()
	for _, c := range s.conns {
		if cancel := c.cancel.Load(); cancel != nil {
			(*cancel)(ErrServerClosed)
		}
		closeNow(c.nc)
	}
	return nil
}

// stopAccepting closes the listeners; the caller holds the mutex.
func (s *Server) stopAccepting() {
	if !s.closing.Swap(true) {
		close(s.stopping)
	}
	for _, ln := range s.listeners {
		ln.Close()
	}
	s.listeners = nil
	s.room.Broadcast()
}

// closeNow closes a connection without a TLS alert, for which it might wait.
func closeNow(nc net.Conn) { belowTLS(nc).Close() }

// resetNow is closeNow such that the client does not take it for the end of an
// response: TCP sends RST in place of FIN.
func resetNow(nc net.Conn) {
	nc = belowTLS(nc)
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	nc.Close()
}

func belowTLS(nc net.Conn) net.Conn {
	if secure, ok := nc.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return nc
}

// handshakeFailed logs what is in the client's power to bring about at will.
func (s *Server) handshakeFailed(nc net.Conn, err error) {
	s.log.Debug("TLS handshake failed", "client", nc.RemoteAddr(), "error", err)
}

// Connections returns how many connections are being served now.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// needHandler panics where serving begins, instead of at each request.
func (s *Server) needHandler() {
	if s.Handler == nil {
		panic("shockwave: Server.Handler is nil")
	}
}

// begin fills in what the members leave open, once.
func (s *Server) begin() { s.once.Do(s.fillIn) }

func (s *Server) fillIn() {
	if !parse.ValidValue(s.Name) {
		panic("shockwave: Server.Name is no field value")
	}
	s.limits, s.timeouts = s.Limits.orDefault(), s.Timeouts.orDefault()
	s.stopping = make(chan struct{})
	s.clock.every = s.timeouts.sweepEvery()
	s.room = sync.NewCond(&s.mu)
	if s.base = s.BaseContext; s.base == nil {
		s.base = context.Background()
	}
	if s.log = s.ErrorLog; s.log == nil {
		s.log = slog.Default()
	}
}

func (s *Server) addListener(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return false
	}
	s.listeners = append(s.listeners, ln)
	return true
}

func (s *Server) removeListener(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.listeners, ln); i >= 0 {
		s.listeners = slices.Delete(s.listeners, i, i+1)
	}
}

// awaitRoom waits until there are fewer connections than Limits.Connections; false
// says that the server is shut down.
func (s *Server) awaitRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.conns) >= s.limits.Connections && !s.closing.Load() {
		s.room.Wait()
	}
	return !s.closing.Load()
}

// pause waits, no longer than until a connection ends; false says that the server
// was shut down meanwhile.
func (s *Server) pause(d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	timer := time.AfterFunc(d, s.wake)
	defer timer.Stop()
	if !s.closing.Load() {
		s.room.Wait()
	}
	return !s.closing.Load()
}

// wake ends a pause. It cannot come before the pause waits, which holds the mutex
// until then.
func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Broadcast()
}

// enter counts a connection in. If the server is shut down it closes the connection
// and gives nil.
func (s *Server) enter(nc net.Conn) *conn {
	c := s.takeConn(nc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		nc.Close()
		s.giveConn(c)
		return nil
	}
	c.mark(phaseFresh)
	c.seen = sighting{index: len(s.conns)}
	s.conns = append(s.conns, c)
	s.startClock()
	return c
}

// leave counts a connection out: neither the sweep nor Close see it any more.
func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.seen.index < 0 {
		return
	}
	last := s.conns[len(s.conns)-1]
	s.conns[c.seen.index] = last
	last.seen.index = c.seen.index
	s.conns[len(s.conns)-1] = nil
	s.conns = s.conns[:len(s.conns)-1]
	c.seen.index = -1
	s.room.Broadcast()
	if len(s.conns) == 0 && s.drained != nil {
		close(s.drained)
	}
}
