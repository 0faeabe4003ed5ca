// Package stdhttp joins Shockwave and net/http.
//
// [Handler] runs any net/http handler on Shockwave: http.ServeMux, http.FileServer, httputil.ReverseProxy, a router
// of another module. [HTTPHandler] does the reverse: it runs a Shockwave handler under a net/http server, in HTTP/1
// and HTTP/2. [H2] serves both HTTP/1.1 and HTTP/2 on one TLS port: connections that agree on h2 are served by
// net/http, all others by Shockwave, and both run the same handler.
//
// [Do] and [NewServer] are for tests: Do handles one request in memory, NewServer listens on a free loopback port.
//
// There is one implementation of a request and its response on each side. A
// Shockwave handler that runs under net/http is driven by the engine's own
// connection code over an in-memory connection, so it behaves there as on a
// socket (limits, refused fields, trailers, early hints).
package stdhttp
