package stdhttp

import (
	"errors"
	"net/http"

	"titan.test/shockwave"
)

// Handler makes h a Shockwave handler. h sees what it would see under net/http:
// the whole request with its body, trailers, TLS state and a context that ends
// when the client hangs up, and a ResponseWriter that also is an http.Flusher,
// http.Hijacker, io.ReaderFrom and io.StringWriter, works with
// http.ResponseController, sends interim responses (WriteHeader with 1xx) and
// trailers (announced by the Trailer field, or with http.TrailerPrefix), guesses
// a missing Content-Type and follows the rules of WriteHeader.
//
// What differs from net/http:
//
//   - What the engine refuses never arrives: it reads RFC 9112 strictly and has limits on the body too
//     ([shockwave.Limits]). A body over its limit fails with *http.MaxBytesError.
//   - A panic before anything was sent becomes a 500; net/http closes without a response.
//     http.ErrAbortHandler closes silently in both.
//   - Responses get a Content-Length up to Limits.ResponseBuffer, which is more than net/http's 2048 bytes.
//   - Request and response are full duplex from the start.
//   - Deadlines of http.ResponseController can shorten the engine's Timeouts, not lift them. A goroutine that reads the
//     body when the handler returns is cut off, and the connection is closed after the response.
//   - Of Connection only close and upgrade are sent. Transfer-Encoding is left out, also when it is identity: a response
//     of unknown length is chunked then. Fields beyond Limits.ResponseFields become a 500 and are logged.
//   - WriteHeader(101) must be followed by Hijack; without it the response is 200.
//   - Pragma: no-cache of a request does not make a Cache-Control.
//   - 205 has no body.
//   - Field values with control bytes are sent with spaces in their place, not just those with CR and LF.
//   - Statuses from 600 on make WriteHeader panic as those below 100 do.
//   - The value of http.ServerContextKey is an *http.Server that serves nothing.
func Handler(h http.Handler) shockwave.Handler {
	return func(c *shockwave.Ctx) { serve(h, c) }
}

// serve is one exchange of a net/http handler.
func serve(h http.Handler, c *shockwave.Ctx) {
	u := &turn{c: c}
	r, err := newRequest(u)
	if err != nil {
		_ = c.Set("Connection", "close")
		_ = c.Error(http.StatusBadRequest, "malformed request target")
		return
	}
	u.share()
	w := &responseWriter{turn: u, fields: make(http.Header)}
	defer leave(u, r)
	h.ServeHTTP(w, r)
	w.finish()
}

// leave takes the exchange away from goroutines that the handler may have left behind, and gives the panic by which
// net/http's handlers cut a connection the engine's name.
func leave(u *turn, r *http.Request) {
	fault := recover()
	u.end()
	if r.MultipartForm != nil {
		_ = r.MultipartForm.RemoveAll()
	}
	if err, ok := fault.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		fault = shockwave.ErrAbort
	}
	if fault != nil {
		panic(fault)
	}
}
