// Package shockwave is an HTTP/1.1 server engine (RFC 9110, RFC 9112) that
// allocates nothing for a request on a connection that is kept alive.
//
//	log.Fatal(shockwave.ListenAndServe(":8080", func(c *shockwave.Ctx) {
//		c.Send("text/plain; charset=utf-8", []byte("hello\n"))
//	}))
//
// # Ownership
//
// A handler gets one *Ctx: the request and its response. The Ctx, and every
// []byte it gave, belong to the connection: they are valid until the handler
// returns, and what they show then changes. string(b) copies; Ctx.Clone copies
// a whole request. Only the handler's goroutine may call methods of a Ctx, unless
// Ctx.Share passes it around under a lock; the context.Context it gives may be used
// by all. Building with the tag
// shockdebug makes every breach of this fail loudly.
//
// # Pipelining
//
// Responses to requests that came together leave together, in one write: when no
// further complete head is there, or when a buffer is full. A handler that is about
// to take long sends what waits before its own response by calling Context or Flush.
//
// # What is bounded
//
// Everything a client can make long has a member of Limits, every wait for a
// client has one of Timeouts, and all have defaults: a Server made with only a
// Handler is safe in the open.
package shockwave

// One connection, top to bottom:
//
//	accept, count, shut down             server.go    Server.Serve
//	the spine                            conn.go      conn.serve
//	a head: bytes to offsets            parse        Parser.Parse
//	the handler's view of it             request.go, query.go
//	its body                             body.go, chunked.go
//	the response: fields, body, head       header.go, response.go, answers.go, head.go
//	files, other protocols               file.go, hijack.go
//	reading and writing at once          share.go
//	bytes to the client                 write.go
//	who waited too long, and the Date    clock.go
//	has the client gone                  context.go
//	what is recycled                     pool.go, and nowhere else
//	TCP sockets                          socket_linux.go
