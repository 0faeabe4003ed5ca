// Package stdhttp joins Shockwave and net/http.
//
// [Handler] runs any net/http handler on Shockwave: http.ServeMux, http.FileServer, httputil.ReverseProxy, a router of
// another module. [HTTPHandler] is the other way: a Shockwave handler under a net/http server, in HTTP/1 and HTTP/2.
// [H2] serves both HTTP/1.1 and HTTP/2 on one TLS port: connections that agree on h2 are served by net/http, all
// others by Shockwave, and both run the same handler.
//
// [Do] and [NewServer] are for tests: the first responses one request in memory, the second listens on a free loopback
// port.
//
// There is one implementation of a request and its response on each side. A Shockwave handler that runs under net/http
// is driven by the engine's own connection code over an in-memory connection, so what holds for it on a socket
// (limits, fields that are refused, trailers, early hints) holds there too.
package stdhttp
