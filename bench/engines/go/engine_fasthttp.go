package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"

	fast "github.com/valyala/fasthttp"
)

var fasthttpEngine = engine{
	name:       fasthttp,
	module:     "github.com/valyala/fasthttp",
	parse:      fasthttpParse,
	write:      fasthttpWrite,
	connection: fasthttpConnection,
	listen:     func(l net.Listener) error { return fasthttpServer().Serve(l) },
}

// The limit of the body is the server's default.
func fasthttpParse(in *input) reading {
	br := bufio.NewReader(&source{in.data})
	r := fast.AcquireRequest()
	run := func(n int) error {
		for range n {
			if err := r.ReadLimitBody(br, fast.DefaultMaxRequestBodySize); err != nil {
				return err
			}
			if len(r.Header.RequestURI()) != len(in.target) || len(r.Body()) != len(in.body) {
				return errMisread
			}
		}
		return nil
	}
	return reading{run, func() request { return fasthttpRequest(r) }}
}

func fasthttpRequest(r *fast.Request) request {
	found := request{method: string(r.Header.Method()), target: string(r.Header.RequestURI()), body: string(r.Body())}
	for name, value := range r.Header.All() {
		found.fields = append(found.fields, fmt.Sprintf("%s: %s", name, value))
	}
	return found
}

// The response is reset after each response, as the server does with that of its connection.
func fasthttpWrite(a *answer, to *sink) func(int) error {
	bw := bufio.NewWriter(to)
	r := fast.AcquireResponse()
	return func(n int) error {
		for i := range n {
			fasthttpAnswer(r, a, a.bodies[i&15])
			if err := r.Write(bw); err != nil {
				return err
			}
			r.Reset()
			if i%flushEvery != flushEvery-1 {
				continue
			}
			if err := bw.Flush(); err != nil {
				return err
			}
		}
		return nil
	}
}

func fasthttpConnection() func(*script) error {
	server := fasthttpServer()
	return func(s *script) error { return server.ServeConn(s) }
}

// Without its Server field, which the others do not send.
func fasthttpServer() *fast.Server {
	return &fast.Server{Handler: fasthttpHandler, NoDefaultServerHeader: true}
}

func fasthttpHandler(ctx *fast.RequestCtx) {
	if ctx.IsPost() && !bytes.Equal(ctx.PostBody(), inputPost.body) {
		ctx.SetStatusCode(fast.StatusBadRequest)
		return
	}
	a, body := answerFor(ctx.RequestURI())
	fasthttpAnswer(&ctx.Response, a, body)
}

func fasthttpAnswer(r *fast.Response, a *answer, body []byte) {
	r.Header.SetContentType(a.contentType)
	for i := range a.fields {
		r.Header.Set(a.fields[i][0], a.fields[i][1])
	}
	r.SetBody(body)
}

var errMisread = errors.New("the request was read wrongly")
