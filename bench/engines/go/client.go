package main

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// A client is one connection of the load: it sends a batch of requests, reads their responses, compares them, and sends
// the next batch.
type client struct {
	fd int
	// batches are what it may send: a request of each id, or all of them at once.
	batches [][]byte
	// depth is the requests in a batch.
	depth int
	// next is the batch that is to be sent; its responses are those of ids next*depth on.
	next int
	// received holds what came of the responses to the batch before it.
	received []byte
	filled   int
}

// A load is a set of clients that one thread drives by epoll.
type load struct {
	poll    int
	clients []*client
	byFD    map[int32]*client
	answer  *answer
	// size is the bytes of one response.
	size     int
	answered int
}

// newLoad connects no one yet. It learns a response's size from a first batch, each byte of which it checks.
func newLoad(address string, in *input) (*load, error) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &load{poll: poll, byFD: map[int32]*client{}}
	l.answer, _ = answerFor(in.target)
	l.size, err = firstAnswers(address, in, l.answer)
	if err != nil {
		l.close()
	}
	return l, err
}

// connect adds clients, each of which sends batches of depth requests.
func (l *load) connect(address string, in *input, depth, clients int) error {
	batches := batchesOf(in, depth)
	for range clients {
		fd, err := dial(address)
		if err != nil {
			return err
		}
		c := &client{fd: fd, batches: batches, depth: depth, received: make([]byte, l.size*depth+1)}
		l.clients = append(l.clients, c)
		l.byFD[int32(fd)] = c
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
		if err := unix.EpollCtl(l.poll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			return err
		}
	}
	return nil
}

func batchesOf(in *input, depth int) [][]byte {
	all := in.batch(len(answerIDs))
	var batches [][]byte
	for size := len(in.data) * depth; len(all) > 0; all = all[size:] {
		batches = append(batches, all[:size])
	}
	return batches
}

func dial(address string) (int, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return fd, unix.SetNonblock(fd, true)
}

func (l *load) close() {
	for _, c := range l.clients {
		_ = unix.Close(c.fd)
	}
	_ = unix.Close(l.poll)
}

// send writes the next batch of every client in the slice; their responses are read by whatever waits next.
func send(clients []*client) error {
	for _, c := range clients {
		if err := c.send(); err != nil {
			return err
		}
	}
	return nil
}

// wait reads until `answers` more have come and gone through the check. What has its responses sends again if `again`.
func (l *load) wait(answers int, again bool) error {
	var events [256]unix.EpollEvent
	for goal := l.answered + answers; l.answered < goal; {
		n, err := unix.EpollWait(l.poll, events[:], silence)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("no response within %d ms", silence)
		}
		for _, event := range events[:n] {
			if err := l.receive(l.byFD[event.Fd], again); err != nil {
				return err
			}
		}
	}
	return nil
}

// runFor drives all clients for a time and tells how many responses came.
func (l *load) runFor(d time.Duration) (answers int, err error) {
	before := l.answered
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := l.wait(answersBetweenLooks, true); err != nil {
			return 0, err
		}
	}
	return l.answered - before, nil
}

const (
	// silence is how long no client may get anything, in milliseconds: long, for a busy machine may hold a server up.
	silence = 30000
	// answersBetweenLooks is how many responses come between two looks at the clock.
	answersBetweenLooks = 64
)

func (l *load) receive(c *client, again bool) error {
	n, err := unix.Read(c.fd, c.received[c.filled:])
	if err == unix.EAGAIN || err == unix.EINTR {
		return nil
	}
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("the server closed a connection")
	}
	c.filled += n
	if c.filled < l.size*c.depth {
		return nil
	}
	if err := l.finish(c); err != nil || !again {
		return err
	}
	return c.send()
}

// finish checks the responses to a batch.
func (l *load) finish(c *client) error {
	if c.filled != l.size*c.depth {
		return fmt.Errorf("more bytes than the responses have: %q", c.received[:c.filled])
	}
	for i := range c.depth {
		one := c.received[i*l.size : (i+1)*l.size]
		if err := l.answer.glance(one, l.size, (c.next*c.depth+i)%len(answerIDs)); err != nil {
			return err
		}
	}
	c.filled = 0
	c.next = (c.next + 1) % len(c.batches)
	l.answered += c.depth
	return nil
}

func (c *client) send() error {
	batch := c.batches[c.next]
	n, err := unix.Write(c.fd, batch)
	if err == nil && n < len(batch) {
		// A batch is far smaller than any socket buffer, and there is one at a time.
		return fmt.Errorf("wrote %d bytes of %d", n, len(batch))
	}
	return err
}
