package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A door is a listener that knows its connections, and may let none in.
type door struct {
	*net.TCPListener
	now atomic.Pointer[state]
	mu  sync.Mutex
	// conns are those that the service has got, by the address of their other end: the last one where a port came again.
	conns map[string]*net.TCPConn
}

// A state is a fault from its beginning to its end.
type state struct {
	fault
	over chan struct{}
	// taken is closed when a connection was accepted that nobody serves.
	taken chan struct{}
}

func newState(f fault) *state { return &state{f, make(chan struct{}), make(chan struct{})} }

// backlog is how many connections wait to be accepted where nothing is the matter.
const backlog = 1024

func listen(address string) (*door, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	d := &door{TCPListener: listener.(*net.TCPListener), conns: make(map[string]*net.TCPConn)}
	d.now.Store(newState(faults["none"]))
	return d, nil
}

func (d *door) state() *state { return d.now.Load() }

// fail puts the fault of that name in the place of the last one.
func (d *door) fail(name string) error {
	next, err := faultNamed(name)
	if err != nil {
		return err
	}
	s := newState(next)
	last := d.now.Swap(s)
	close(last.over)
	switch {
	case next.welcome == unaccepted:
		return d.crowd(s)
	case last.welcome == unaccepted:
		return d.setBacklog(backlog)
	}
	return nil
}

// Accept returns the next connection that is to be served.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.AcceptTCP()
		if err != nil {
			return nil, err
		}
		switch s := d.state(); s.welcome {
		case ignored:
			go closeAfter(s.over, conn)
		case unaccepted:
			_ = conn.Close()
			close(s.taken)
			<-s.over
		default:
			d.keep(conn)
			return conn, nil
		}
	}
}

func (d *door) keep(conn *net.TCPConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[conn.RemoteAddr().String()] = conn
}

func (d *door) connection(peer string) *net.TCPConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.conns[peer]
}

// crowd fills the queue of connections until s is over: the next SYN gets no answer.
func (d *door) crowd(s *state) error {
	const queue, patience = 1, 100 * time.Millisecond
	if err := d.setBacklog(queue); err != nil {
		return err
	}
	// The kernel takes one more than it is told.
	for range queue + 3 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.Addr().String())
		cancel()
		if err != nil {
			return nil
		}
		go closeAfter(s.over, conn)
		// The first is accepted by the turn of Accept that has begun: until then there would be room for another one.
		select {
		case <-s.taken:
		case <-s.over:
		}
	}
	return nil
}

// setBacklog changes how many connections may wait: Linux takes a second listen for that.
func (d *door) setBacklog(connections int) error {
	raw, err := d.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), connections) })
	if err != nil {
		return err
	}
	return failed
}

func closeAfter(over <-chan struct{}, conn net.Conn) {
	<-over
	_ = conn.Close()
}
