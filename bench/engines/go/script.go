package main

import (
	"errors"
	"io"
	"net"
	"time"
)

// A script is a connection in memory: the peer has sent requests, so many with each read, and its sink takes every response.
// One goroutine at a time reads and one writes, as with a socket.
type script struct {
	*sink
	// batch is the requests of one id each, sent over and over.
	batch []byte
	// piece is how many bytes of the batch come with a read: a request, or all of them.
	piece int
	// at is the next byte of the batch; left are the bytes still to come.
	at, left int
	// closed is closed with the connection.
	closed chan struct{}
	ended  bool
}

// newScript sends `requests` requests, perRead at a time. It is 16, the number of ids, or 1.
func newScript(in *input, requests, perRead int, to *sink) *script {
	return &script{
		sink:   to,
		batch:  in.batch(len(answerIDs)),
		piece:  len(in.data) * perRead,
		left:   len(in.data) * requests,
		closed: make(chan struct{}),
	}
}

func (s *script) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	end := s.at - s.at%s.piece + s.piece
	n := copy(b, s.batch[s.at:min(end, s.at+s.left)])
	s.left -= n
	if s.at += n; s.at == len(s.batch) {
		s.at = 0
	}
	return n, nil
}

func (s *script) Close() error {
	if s.ended {
		return net.ErrClosed
	}
	s.ended = true
	close(s.closed)
	return nil
}

func (*script) LocalAddr() net.Addr              { return scriptAddr }
func (*script) RemoteAddr() net.Addr             { return scriptAddr }
func (*script) SetDeadline(time.Time) error      { return nil }
func (*script) SetReadDeadline(time.Time) error  { return nil }
func (*script) SetWriteDeadline(time.Time) error { return nil }

var scriptAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// scripts is a listener whose connections are scripts, for engines that serve nothing else.
type scripts chan net.Conn

func (l scripts) Accept() (net.Conn, error) {
	conn, open := <-l
	if !open {
		return nil, errClosed
	}
	return conn, nil
}

func (l scripts) Close() error {
	close(l)
	return nil
}

func (scripts) Addr() net.Addr { return scriptAddr }

// hertz tells the end of a listener by the word closed.
var errClosed = errors.New("closed")
