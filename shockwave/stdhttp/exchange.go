package stdhttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	"titan.test/shockwave"
)

// An exchange is one request that a Shockwave server serves over an in-memory
// connection. Three goroutines take part: the engine's, which runs the handler;
// the sender's, which writes the request; and the caller's, which reads the
// response. They buffer nothing beyond the piece that each is passing on, so
// back-pressure works both ways.
type exchange struct {
	r         *http.Request
	client    net.Conn
	responses *bufio.Reader // reads client; nil once it is back in the pool

	invited chan struct{} // closed when the body may be sent
	invite  sync.Once
	sent    chan struct{} // closed when the sender is done with the request
	served  chan struct{} // closed when the engine has left the connection
	unwatch func() bool   // ends the watch over r's context

	// taken reports whether net/http has given the body to its end: the sender waits for the client no more.
	taken atomic.Bool
}

// begin hands r to the server and starts to send it. The exchange must be ended.
func (b *bridge) begin(r *http.Request) (*exchange, error) {
	length := bodyLength(r)
	head, err := appendHead(nil, r, length)
	if err != nil {
		return nil, err
	}
	client, engine := net.Pipe()
	x := &exchange{
		r:         r,
		client:    client,
		responses: responseReaders.Get().(*bufio.Reader),
		invited:   make(chan struct{}),
		sent:      make(chan struct{}),
		served:    make(chan struct{}),
	}
	x.taken.Store(length == 0)
	x.responses.Reset(client)
	x.unwatch = context.AfterFunc(r.Context(), func() { client.Close() })
	if !wantsContinue(r, length) {
		x.allowBody()
	}
	go func() {
		defer close(x.served)
		b.server.ServeConn(b.engineEnd(engine, r))
	}()
	go func() {
		defer close(x.sent)
		x.send(head, length)
	}()
	return x, nil
}

// send writes the request. A body that breaks off ends the connection, so that the engine never takes what came of it
// for the whole.
func (x *exchange) send(head []byte, length int64) {
	if _, err := x.client.Write(head); err != nil || length == 0 {
		return
	}
	select {
	case <-x.invited:
	case <-x.served:
		return
	}
	// A closed pipe is the engine's doing: it wants no more of the body, and its response is still to be read.
	body := &uptake{Reader: x.r.Body, left: length, taken: &x.taken}
	if err := sendBody(x.client, body, x.r, length); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		x.client.Close()
	}
}

// An uptake notes that a body has been read to its end, before the handler sees the last of it.
type uptake struct {
	io.Reader
	left  int64 // negative: not known
	taken *atomic.Bool
}

func (u *uptake) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.left > 0 {
		u.left -= int64(n)
	}
	if u.left == 0 || err == io.EOF {
		u.taken.Store(true)
	}
	return n, err
}

// allowBody lets the sender go on behind a head with Expect: 100-continue.
func (x *exchange) allowBody() { x.invite.Do(func() { close(x.invited) }) }

// response reads the final response. Each interim response but 100, which concerns the body alone, goes to interim, whose
// error ends it.
func (x *exchange) response(interim func(*http.Response) error) (*http.Response, error) {
	for {
		response, err := http.ReadResponse(x.responses, x.r)
		if err != nil {
			return nil, err
		}
		switch {
		case response.StatusCode == http.StatusContinue:
			x.allowBody()
		case response.StatusCode >= 200 || response.StatusCode == http.StatusSwitchingProtocols:
			return response, nil
		default:
			if err := interim(response); err != nil {
				return nil, err
			}
		}
	}
}

// drained reads on behind a response until the engine ends the connection, which it does when the handler has returned:
// ending it sooner would look to the handler like a client that hung up.
func (x *exchange) drained() { io.Copy(io.Discard, x.responses) }

// end closes the connection and waits until the engine and the sender are done with the request.
func (x *exchange) end() {
	x.unwatch()
	x.client.Close()
	<-x.served
	<-x.sent
	x.responses.Reset(nil)
	responseReaders.Put(x.responses)
	x.responses = nil
}

// engineEnd is the engine's end of an in-memory connection. It shows the addresses, and with TLS the state, of the
// connection that r came by.
func (b *bridge) engineEnd(c net.Conn, r *http.Request) net.Conn {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	end := memoryConn{Conn: c, local: local, remote: peer(r.RemoteAddr), model: b.model}
	if r.TLS == nil {
		return &end
	}
	return &memoryTLS{end, r.TLS}
}

type memoryConn struct {
	net.Conn
	local, remote net.Addr
	model         *shockwave.Server
}

// ShuttingDown is what the Ctx says of itself.
func (c *memoryConn) ShuttingDown() <-chan struct{} { return c.model.ShuttingDown() }

func (c *memoryConn) RemoteAddr() net.Addr {
	if c.remote == nil {
		return c.Conn.RemoteAddr()
	}
	return c.remote
}

func (c *memoryConn) LocalAddr() net.Addr {
	if c.local == nil {
		return c.Conn.LocalAddr()
	}
	return c.local
}

type memoryTLS struct {
	memoryConn
	state *tls.ConnectionState
}

func (c *memoryTLS) ConnectionState() tls.ConnectionState { return *c.state }

// A named address is a peer that is not an IP address and a port, such as the client of a Unix socket.
type named string

func (named) Network() string  { return "memory" }
func (a named) String() string { return string(a) }

func peer(address string) net.Addr {
	if address == "" {
		return nil
	}
	if a, err := netip.ParseAddrPort(address); err == nil {
		return net.TCPAddrFromAddrPort(a)
	}
	return named(address)
}
