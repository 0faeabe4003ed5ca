package compare

import (
	"bufio"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/valyala/fasthttp"

	"titan.test/shockwave"
)

// engines are configured as their users get them, but for the logs.
var engines = []engine{
	{"Shockwave", serveShockwave},
	{"net/http", serveNetHTTP},
	{"fasthttp", serveFastHTTP},
}

func serveShockwave(listener net.Listener, handle handler) error {
	server := &shockwave.Server{
		Handler:  func(c *shockwave.Ctx) { handle(&shock{c}) },
		ErrorLog: slog.New(slog.DiscardHandler),
	}
	defer server.Close()
	return server.Serve(listener)
}

type shock struct{ c *shockwave.Ctx }

func (x *shock) method() string            { return x.c.Method() }
func (x *shock) path() string              { return string(x.c.Path()) }
func (x *shock) query() string             { return string(x.c.Query()) }
func (x *shock) host() string              { return string(x.c.Host()) }
func (x *shock) field(name string) string  { return string(x.c.Header(name)) }
func (x *shock) cookie(name string) string { return string(x.c.Cookie(name)) }
func (x *shock) setStatus(status int)      { x.c.SetStatus(status) }

func (x *shock) readBody() (string, error) {
	body, err := io.ReadAll(x.c.Body())
	return string(body), err
}

func (x *shock) trailer(name string) string {
	for field, value := range x.c.Trailers() {
		if strings.EqualFold(string(field), name) {
			return string(value)
		}
	}
	return ""
}

func (x *shock) set(name, value string) error { return x.c.Set(name, value) }
func (x *shock) add(name, value string) error { return x.c.Add(name, value) }

func (x *shock) write(text string) error {
	_, err := x.c.WriteString(text)
	return err
}

func (x *shock) stream(pieces ...string) {
	for _, piece := range pieces {
		x.c.WriteString(piece)
		x.c.Flush()
	}
}

func (x *shock) sendTrailer(name, value string) { x.c.Trailer(name, value) }

func serveNetHTTP(listener net.Listener, handle handler) error {
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handle(&netHTTP{w, r})
		}),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	defer server.Close()
	return server.Serve(listener)
}

type netHTTP struct {
	w http.ResponseWriter
	r *http.Request
}

func (x *netHTTP) method() string             { return x.r.Method }
func (x *netHTTP) path() string               { return x.r.URL.Path }
func (x *netHTTP) query() string              { return x.r.URL.RawQuery }
func (x *netHTTP) host() string               { return x.r.Host }
func (x *netHTTP) field(name string) string   { return x.r.Header.Get(name) }
func (x *netHTTP) trailer(name string) string { return x.r.Trailer.Get(name) }
func (x *netHTTP) setStatus(status int)       { x.w.WriteHeader(status) }

func (x *netHTTP) cookie(name string) string {
	cookie, err := x.r.Cookie(name)
	if err != nil {
		return ""
	}
	return cookie.Value
}

func (x *netHTTP) readBody() (string, error) {
	body, err := io.ReadAll(x.r.Body)
	return string(body), err
}

func (x *netHTTP) set(name, value string) error {
	x.w.Header().Set(name, value)
	return nil
}

func (x *netHTTP) add(name, value string) error {
	x.w.Header().Add(name, value)
	return nil
}

func (x *netHTTP) write(text string) error {
	_, err := io.WriteString(x.w, text)
	return err
}

func (x *netHTTP) stream(pieces ...string) {
	for _, piece := range pieces {
		io.WriteString(x.w, piece)
		x.w.(http.Flusher).Flush()
	}
}

func (x *netHTTP) sendTrailer(name, value string) {
	x.w.Header().Set(http.TrailerPrefix+name, value)
}

func serveFastHTTP(listener net.Listener, handle handler) error {
	server := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) { handle(&fastHTTP{ctx}) },
		Logger:  log.New(io.Discard, "", 0),
	}
	return server.Serve(listener)
}

type fastHTTP struct{ ctx *fasthttp.RequestCtx }

func (x *fastHTTP) method() string             { return string(x.ctx.Method()) }
func (x *fastHTTP) path() string               { return string(x.ctx.Path()) }
func (x *fastHTTP) query() string              { return string(x.ctx.URI().QueryString()) }
func (x *fastHTTP) host() string               { return string(x.ctx.Host()) }
func (x *fastHTTP) field(name string) string   { return string(x.ctx.Request.Header.Peek(name)) }
func (x *fastHTTP) cookie(name string) string  { return string(x.ctx.Request.Header.Cookie(name)) }
func (x *fastHTTP) trailer(name string) string { return x.field(name) }
func (x *fastHTTP) setStatus(status int)       { x.ctx.SetStatusCode(status) }

func (x *fastHTTP) readBody() (string, error) { return string(x.ctx.PostBody()), nil }

func (x *fastHTTP) set(name, value string) error {
	x.ctx.Response.Header.Set(name, value)
	return nil
}

func (x *fastHTTP) add(name, value string) error {
	x.ctx.Response.Header.Add(name, value)
	return nil
}

func (x *fastHTTP) write(text string) error {
	_, err := x.ctx.WriteString(text)
	return err
}

func (x *fastHTTP) stream(pieces ...string) {
	x.ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		for _, piece := range pieces {
			w.WriteString(piece)
			w.Flush()
		}
	})
}

func (x *fastHTTP) sendTrailer(name, value string) {
	err := x.ctx.Response.Header.AddTrailer(name)
	x.ctx.Response.Header.Set(name, value)
	if err != nil {
		panic(errors.Join(errors.New("fasthttp knows the name"), err))
	}
}
