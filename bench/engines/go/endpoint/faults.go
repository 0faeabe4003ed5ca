package main

import (
	"fmt"
	"net/http"
	"time"
)

// A fault is a way to fail. A health check, which is no request of a client, sees only those that close the door.
type fault struct {
	// respond is what becomes of a request.
	respond func(x *exchange)
	// welcome is what becomes of new connections.
	welcome welcome
}

// A welcome is what becomes of a connection that the kernel has established.
type welcome int

const (
	served welcome = iota
	// ignored connections are accepted and never read.
	ignored
	// unaccepted connections wait in a queue that is full: nobody gets further than SYN.
	unaccepted
)

// slowness is more than the response timeout of the gateways.
const slowness = 2 * time.Second

// gap is the time from the first half of a response to its end: long enough for a gateway to have passed that half on.
const gap = 20 * time.Millisecond

var faults = map[string]fault{
	"none":      {respond: (*exchange).answer},
	"error":     {respond: (*exchange).refuse},
	"alternate": {respond: (*exchange).alternate},
	"slow":      {respond: (*exchange).linger},
	"reset":     {respond: (*exchange).reset},
	"truncate":  {respond: (*exchange).truncate},
	"garbage":   {respond: (*exchange).babble},
	"blackhole": {respond: (*exchange).ignore, welcome: ignored},
	"backlog":   {respond: (*exchange).answerLast, welcome: unaccepted},
}

func faultNamed(name string) (fault, error) {
	f, found := faults[name]
	if !found {
		return f, fmt.Errorf("there is no fault %q", name)
	}
	return f, nil
}

// alternate refuses every second request.
func (x *exchange) alternate() {
	if x.number%2 == 0 {
		x.refuse()
		return
	}
	x.answer()
}

// linger answers too late.
func (x *exchange) linger() {
	select {
	case <-time.After(slowness):
		x.answer()
	case <-x.request.Context().Done():
	}
}

// ignore never answers.
func (x *exchange) ignore() {
	select {
	case <-x.over:
	case <-x.request.Context().Done():
	}
	panic(http.ErrAbortHandler)
}

// answerLast is the last response on its connection: the next request needs another one.
func (x *exchange) answerLast() {
	x.Header().Set("Connection", "close")
	x.answer()
}

// reset breaks the connection off in the middle of a response.
func (x *exchange) reset() {
	x.half()
	if conn := x.connection(); conn != nil {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// truncate ends in the middle of a response, as a process does that is done for. Of HTTP/2 only the stream ends.
func (x *exchange) truncate() {
	x.half()
	if conn := x.connection(); conn != nil && x.request.ProtoMajor == 1 {
		_ = conn.CloseWrite()
	}
	panic(http.ErrAbortHandler)
}

// babble responds with what is no HTTP of any version.
func (x *exchange) babble() {
	if conn := x.connection(); conn != nil {
		_, _ = conn.Write([]byte("\x00\xffthis is no response\r\n\r\n"))
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}
