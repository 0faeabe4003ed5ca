package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A service responds to every request with the same body, whose first byte is its name.
type service struct {
	door    *door
	reports net.Conn
	body    []byte
	count   atomic.Uint64
}

// An exchange is a request, and the response to it.
type exchange struct {
	http.ResponseWriter
	*service
	request *http.Request
	number  uint64
	// over is closed when the fault is.
	over <-chan struct{}
}

const (
	bodySize = 4 << 10
	// maxPosted bounds what is read of a request.
	maxPosted = 1 << 20
	health    = "/healthz"
)

func bodyOf(name string) []byte {
	return append([]byte(name), bytes.Repeat([]byte("."), bodySize-len(name))...)
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == health && s.door.state().welcome == served {
		w.WriteHeader(http.StatusOK)
		return
	}
	state := s.door.state()
	x := &exchange{w, s, r, s.count.Add(1), state.over}
	if r.URL.Path == health {
		x.ignore()
	}
	// A report that is lost is one try less in a table.
	_, _ = s.reports.Write([]byte("1"))
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxPosted)); err != nil {
		panic(http.ErrAbortHandler)
	}
	state.respond(x)
}

func (x *exchange) isCall() bool {
	return strings.HasPrefix(x.request.Header.Get("Content-Type"), "application/grpc")
}

func (x *exchange) answer() {
	message := x.begin()
	_, _ = x.Write(message)
	if x.isCall() {
		x.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}
}

// half sends the first half of an answer, and then nothing for a moment.
func (x *exchange) half() {
	message := x.begin()
	_, _ = x.Write(message[:len(message)/2])
	_ = http.NewResponseController(x.ResponseWriter).Flush()
	time.Sleep(gap)
}

// begin sets the fields of an answer, and returns its body.
func (x *exchange) begin() []byte {
	if !x.isCall() {
		x.Header().Set("Content-Type", "application/octet-stream")
		x.Header().Set("Content-Length", strconv.Itoa(len(x.body)))
		return x.body
	}
	x.Header().Set("Content-Type", "application/grpc")
	length := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(x.body)))
	return append(length, x.body...)
}

// refuse responds as a service does that is up and cannot work: with 500, or as a call with UNAVAILABLE.
func (x *exchange) refuse() {
	if x.isCall() {
		x.Header().Set("Content-Type", "application/grpc")
		x.Header().Set("Grpc-Status", "14")
		return
	}
	x.WriteHeader(http.StatusInternalServerError)
}

// connection is the one that the request came on.
func (x *exchange) connection() *net.TCPConn { return x.door.connection(x.request.RemoteAddr) }
