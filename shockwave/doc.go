// Package shockwave is an HTTP/1.1 server engine (RFC 9110, RFC 9112) that does
// not allocate for a request on a keep-alive connection.
//
//	log.Fatal(shockwave.ListenAndServe(":8080", func(c *shockwave.Ctx) {
//		c.Send("text/plain; charset=utf-8", []byte("hello\n"))
//	}))
//
// # Ownership
//
// A handler gets one *Ctx: the request and its response. The Ctx, and every
// []byte that it returned, belong to the connection: they are valid until the
// handler returns; then the next request reuses the memory. string(b) copies;
// Ctx.Clone copies a whole request. Only the handler's goroutine may call methods
// of a Ctx, unless Ctx.Share passes it around under a lock; any goroutine may use
// the context.Context that it returns. Build with the tag shockdebug to make
// violations fail loudly.
//
// # Pipelining
//
// Responses to requests that arrived together are sent together, in one write:
// when no further complete head has arrived, or when a buffer is full. A handler
// that is about to take long sends the earlier responses first by calling Context
// or Flush.
//
// # What is bounded
//
// Limits has a field for everything that a client can make long, Timeouts has one
// for every wait for a client, and all have defaults: a Server with only a
// Handler is safe on the internet.
package shockwave

// One connection, top to bottom:
//
//	accept, count, shut down             server.go    Server.Serve
//	the spine                            conn.go      conn.serve
//	a head: bytes to offsets            parse        Parser.Parse
//	the handler's view of it             request.go, query.go
//	its body                             body.go, chunked.go
//	the response: fields, body, head       header.go, response.go, respond.go, head.go
//	files, other protocols               file.go, hijack.go
//	reading and writing at once          share.go
//	bytes to the client                 write.go
//	who waited too long, and the Date    clock.go
//	has the client gone                  context.go
//	what is recycled                     pool.go, and nowhere else
//	TCP sockets                          socket_linux.go
