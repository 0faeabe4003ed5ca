package stdhttp

import (
	"cmp"
	"io"
	"maps"
	"net"
	"net/http"
	"time"

	"titan.test/shockwave"
)

// HTTPHandler makes h a net/http handler. It serves HTTP/1 and HTTP/2 with what a
// [shockwave.Ctx] can do: bodies both ways at the same time, trailers, early
// hints, and the cancellation of the Ctx's context when the client has gone. A
// handler that hijacks the connection may respond with 101 and take over the
// protocol, in HTTP/1.1 only; it must have read the body.
//
// The limits and timeouts of the engine apply with their defaults; to choose them, use [ServerHandler]. A request
// that exceeds a limit, or that net/http accepts and RFC 9112 does not, gets the response that Shockwave would send.
// In HTTP/2 requests the Ctx says HTTP/1.1.
//
// A panic of the handler has the same effect as on a socket. If its response has
// already begun, or it asked for the connection to be cut, the stream or
// connection is aborted by http.ErrAbortHandler. So is one whose client takes
// less than 16 KiB of a response within Timeouts.Write. An HTTP/1 response that
// begins before the end of the request body closes the connection.
//
// Middleware that wraps the http.ResponseWriter needs an Unwrap method; without it no timeout reaches the connection,
// and an exchange lasts until the client has sent its body and taken the response.
func HTTPHandler(h shockwave.Handler) http.Handler {
	return ServerHandler(&shockwave.Server{Handler: h})
}

// ServerHandler is [HTTPHandler] with the handler, limits, timeouts, base context, name and log of s. It copies them:
// later changes of s have no effect, and s need not be serving. ShuttingDown of a Ctx reports Shutdown of s, not of
// the net/http server; with [HTTPHandler] it reports nothing.
func ServerHandler(s *shockwave.Server) http.Handler {
	if s.Handler == nil {
		panic("stdhttp: the handler is nil")
	}
	server := &shockwave.Server{
		Handler:     s.Handler,
		Limits:      s.Limits,
		Timeouts:    s.Timeouts,
		ErrorLog:    s.ErrorLog,
		Name:        s.Name,
		BaseContext: s.BaseContext,
	}
	// The end of the connection then marks the end of the handler.
	server.Limits.RequestsPerConnection = 1
	return &bridge{
		server:    server,
		model:     s,
		write:     patience(s.Timeouts),
		linger:    cmp.Or(s.Limits.Linger, lingerDefault),
		lingerFor: cmp.Or(s.Timeouts.Linger, lingerForDefault),
	}
}

// A bridge serves net/http's requests by a Shockwave server.
type bridge struct {
	server *shockwave.Server
	model  *shockwave.Server // what ServerHandler got
	write  time.Duration     // see patience
	// Limits.Linger and Timeouts.Linger, with their defaults.
	linger    int64
	lingerFor time.Duration
}

// The defaults of shockwave.Limits.Linger and shockwave.Timeouts.Linger.
const (
	lingerDefault    = 256 << 10
	lingerForDefault = 2 * time.Second
)

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	// An error says that the protocol has no half-duplex mode.
	_ = control.EnableFullDuplex()
	x, err := b.begin(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	defer x.release(control)
	out := newSink(w, b.write)
	response, err := x.response(func(interim *http.Response) error { return writeInterim(out, interim) })
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		x.switchProtocols(control, response)
		return
	}
	copyFields(w.Header(), response.Header)
	announce(w.Header(), response.Trailer)
	if r.ProtoMajor == 1 && !x.taken.Load() {
		// Whether the rest of the body will come is not known, and net/http would take it for the next request.
		w.Header().Set("Connection", "close")
	}
	if r.ProtoMajor == 1 {
		offerUpgrade(w.Header(), response.Header["Upgrade"])
	}
	w.WriteHeader(response.StatusCode)
	if err := copyBody(out, response); err != nil {
		panic(http.ErrAbortHandler)
	}
	addTrailers(w.Header(), response.Trailer)
	// The handler may go on for long behind the response's last byte.
	if err := out.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	x.drained()
	out.leave(r)
	if r.ProtoMajor == 1 && !x.taken.Load() {
		b.readAway(x, control)
	}
}

// readAway takes what the client sends of its body behind the response that ends the connection: else it would be reset,
// and the response be lost with it (RFC 9112 section 9.6).
func (b *bridge) readAway(x *exchange, control *http.ResponseController) {
	var until time.Time
	if b.lingerFor > 0 {
		until = time.Now().Add(b.lingerFor)
	}
	if err := control.SetReadDeadline(until); err != nil {
		return
	}
	<-x.sent
	if b.linger > 0 {
		_, _ = io.CopyN(io.Discard, x.r.Body, b.linger)
	}
}

// release ends the exchange. The sender may wait for a body that the client is slow to send, and nobody may read it
// behind this handler's back: a deadline in the past frees it. A connection of HTTP/1 ends then.
func (x *exchange) release(control *http.ResponseController) {
	x.client.Close()
	if !x.taken.Load() {
		_ = control.SetReadDeadline(longAgo)
	}
	x.end()
}

// writeInterim sends an interim response and leaves the map as it was: what is in it is for the final response.
func writeInterim(out *sink, interim *http.Response) error {
	fields := out.Header()
	before := maps.Clone(fields)
	copyFields(fields, interim.Header)
	err := out.writeInterim(interim.StatusCode)
	clear(fields)
	maps.Copy(fields, before)
	return err
}

// copyFields takes over the fields of a response but those of the in-memory connection.
func copyFields(to, from http.Header) {
	for name, values := range from {
		if name != "Content-Length" && ofConnection(name) {
			continue
		}
		to[name] = values
	}
	if _, ok := to["Content-Type"]; !ok {
		// The handler sent none, and net/http must not guess one.
		to["Content-Type"] = nil
	}
}

// offerUpgrade names the protocols that the handler could change to, as 426 must (RFC 9110 section 15.5.22).
func offerUpgrade(fields http.Header, protocols []string) {
	if len(protocols) == 0 {
		return
	}
	fields["Upgrade"] = protocols
	fields.Add("Connection", "upgrade")
}

// announce promises the trailers that the handler has promised, which is when net/http sends them under their names.
func announce(fields, trailer http.Header) {
	for name := range trailer {
		fields.Add("Trailer", name)
	}
}

// addTrailers hands over the trailers, promised or not, now that the body has ended.
func addTrailers(fields, trailer http.Header) {
	promised := fields["Trailer"]
	for name, values := range trailer {
		if !hasToken(promised, name) {
			name = http.TrailerPrefix + name
		}
		fields[name] = values
	}
}

// copyBody passes the body on as it comes. What is not the end of it is flushed at once: the engine has let it go,
// because the handler flushed or because its buffer was full.
func copyBody(out *sink, response *http.Response) error {
	buf := pieces.Get().(*piece)
	defer pieces.Put(buf)
	left := response.ContentLength
	// The head may be all there is for a long time.
	if left < 0 {
		if err := out.Flush(); err != nil {
			return err
		}
	}
	for {
		n, err := response.Body.Read(buf[:])
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			left -= int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if left == 0 {
			continue
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// switchProtocols gives both ends of the connection to each other after 101. When either side ends, both are closed:
// the in-memory connection has no half that could stay open. The body must have been read: the new protocol begins
// behind it.
func (x *exchange) switchProtocols(control *http.ResponseController, response *http.Response) {
	if !x.taken.Load() {
		panic(http.ErrAbortHandler)
	}
	outer, buffered, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer outer.Close()
	if err := writeSwitch(outer, response); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-x.sent
		relay(x.client, buffered)
		x.client.Close()
		outer.Close()
	}()
	relay(outer, x.responses)
	outer.Close()
	<-done
}

func writeSwitch(outer net.Conn, response *http.Response) error {
	head := []byte("HTTP/1.1 101 Switching Protocols\r\n")
	for name, values := range response.Header {
		for _, value := range values {
			head = appendField(head, name, value)
		}
	}
	_, err := outer.Write(append(head, "\r\n"...))
	return err
}

func relay(to io.Writer, from io.Reader) {
	buf := pieces.Get().(*piece)
	defer pieces.Put(buf)
	// The wrappers keep io.CopyBuffer from using a buffer of its own.
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, buf[:])
}
