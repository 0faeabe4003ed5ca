package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/network/standard"
	"github.com/cloudwego/hertz/pkg/protocol"
	"github.com/cloudwego/hertz/pkg/protocol/http1/req"
	"github.com/cloudwego/hertz/pkg/protocol/http1/resp"
	"github.com/cloudwego/netpoll"
)

// hertz over its own network poller, which is its default and needs a socket: in memory its parser and its writer run
// over that poller's buffers, and whole connections are left to hertz over package net.
var hertzEngine = engine{
	name:   "hertz",
	module: "github.com/cloudwego/hertz",
	parse:  hertzParse,
	write:  hertzWrite,
	listen: func(l net.Listener) error { return hertzServer(l).Run() },
}

var hertzStdEngine = engine{
	name:       "hertz-net",
	module:     "github.com/cloudwego/hertz",
	connection: func() func(*script) error { return accepted(hertzStdListen) },
	listen:     hertzStdListen,
}

func hertzParse(in *input) reading {
	zr := netpoll.NewReader(&source{in.data})
	r := &protocol.Request{}
	run := func(n int) error {
		for range n {
			if err := req.ReadHeaderAndLimitBody(r, zr, 4<<20); err != nil {
				return err
			}
			if len(r.Header.RequestURI()) != len(in.target) || len(r.Body()) != len(in.body) {
				return errMisread
			}
			if err := zr.Release(); err != nil {
				return err
			}
		}
		return nil
	}
	return reading{run, func() request { return hertzRequest(r) }}
}

func hertzRequest(r *protocol.Request) request {
	found := request{method: string(r.Header.Method()), target: string(r.Header.RequestURI()), body: string(r.Body())}
	r.Header.VisitAll(func(name, value []byte) {
		found.fields = append(found.fields, fmt.Sprintf("%s: %s", name, value))
	})
	return found
}

func hertzWrite(a *answer, to *sink) func(int) error {
	zw := netpoll.NewWriter(to)
	r := &protocol.Response{}
	return func(n int) error {
		for i := range n {
			hertzAnswer(r, a, a.bodies[i&15])
			if err := resp.Write(r, zw); err != nil {
				return err
			}
			r.Reset()
			if i%flushEvery != flushEvery-1 {
				continue
			}
			if err := zw.Flush(); err != nil {
				return err
			}
		}
		return nil
	}
}

func hertzStdListen(l net.Listener) error {
	return hertzServer(l, server.WithTransport(standard.NewTransporter)).Run()
}

func hertzServer(l net.Listener, more ...config.Option) *server.Hertz {
	// It would log each connection that ends.
	hlog.SetOutput(io.Discard)
	quiet := config.Option{F: func(o *config.Options) { o.NoDefaultServerHeader = true }}
	h := server.New(append([]config.Option{server.WithListener(l), quiet}, more...)...)
	h.GET("/*any", hertzHandler)
	h.POST("/*any", hertzHandler)
	return h
}

func hertzHandler(_ context.Context, c *app.RequestContext) {
	if c.IsPost() && !bytes.Equal(c.Request.Body(), inputPost.body) {
		c.SetStatusCode(400)
		return
	}
	a, body := answerFor(c.Request.RequestURI())
	hertzAnswer(&c.Response, a, body)
}

func hertzAnswer(r *protocol.Response, a *answer, body []byte) {
	r.Header.SetContentType(a.contentType)
	for i := range a.fields {
		r.Header.Set(a.fields[i][0], a.fields[i][1])
	}
	r.SetBody(body)
}
