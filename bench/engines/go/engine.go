package main

import (
	"net"
	"runtime"
	"runtime/debug"
)

// An engine is one HTTP/1.1 server, used as its own users use it. A member that is nil is an entry that it does not
// have: it stays out of those scenarios.
type engine struct {
	name string
	// module is where its version stands in the build's list of modules; "" is the standard library.
	module string
	// parse reads requests from bytes in memory.
	parse func(*input) reading
	// write puts answers into a writer in memory.
	write func(*answer, *sink) func(n int) error
	// besides is what write cannot do without though it is no writing: it is measured as well, and its cost taken off.
	besides func(*answer) func(n int) error
	// connection makes what serves a scripted connection to its end. The server behind it lives as long as the
	// process.
	connection func() func(*script) error
	// listen serves a listener until it is closed.
	listen func(net.Listener) error
}

// A reading is one engine's way of reading an input.
type reading struct {
	// run reads it n times and compares lengths each time.
	run func(n int) error
	// last is what the last read found.
	last func() request
}

// A request is what an engine made of an input.
type request struct {
	method, target string
	fields         []string
	body           string
}

// The order decides nothing: rounds begin with each in turn.
var engines = []*engine{&shockwaveEngine, &fasthttpEngine, &netHTTPEngine, &hertzEngine, &hertzStdEngine}

const (
	subject  = "shockwave"
	fasthttp = "fasthttp"
	netHTTP  = "net/http"
)

// version is what the build took of an engine.
func (e *engine) version() string {
	if e.module == "" {
		return runtime.Version()
	}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == e.module {
			return module.Version
		}
	}
	return "unknown"
}

// accepted serves scripts through a server that knows only listeners.
func accepted(listen func(net.Listener) error) func(*script) error {
	l := make(scripts)
	failed := make(chan error, 1)
	go func() { failed <- listen(l) }()
	return func(s *script) error {
		select {
		case l <- s:
		case err := <-failed:
			return err
		}
		<-s.closed
		return nil
	}
}

// A source has one request for each read, as a kept connection has. So each engine pays for bringing the bytes into
// its own buffer.
type source struct{ data []byte }

func (s *source) Read(b []byte) (int, error) { return copy(b, s.data), nil }

// flushEvery is how many responses go into one write, as when that many requests were pipelined.
const flushEvery = len(answerIDs)
