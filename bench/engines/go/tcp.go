package main

import (
	"fmt"
	"net"
	"runtime"
	"time"
)

// firstAnswers asks for each response once, pipelined, closes the connection, and checks every byte. It returns the size
// of one response.
func firstAnswers(address string, in *input, expected *answer) (int, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.Write(in.batch(len(answerIDs))); err != nil {
		return 0, err
	}
	return readAnswers(conn, expected)
}

func readAnswers(conn net.Conn, expected *answer) (int, error) {
	if err := conn.SetReadDeadline(time.Now().Add(silence * time.Millisecond)); err != nil {
		return 0, err
	}
	data := make([]byte, 64<<10)
	last := expected.bodies[len(answerIDs)-1]
	for filled := 0; ; {
		n, err := conn.Read(data[filled:])
		if err != nil {
			return 0, fmt.Errorf("after %q: %w", data[:filled], err)
		}
		filled += n
		if hasSuffix(data[:filled], last) {
			return expected.checkAll(data[:filled], len(answerIDs))
		}
	}
}

func hasSuffix(data, end []byte) bool {
	return len(data) >= len(end) && string(data[len(data)-len(end):]) == string(end)
}

// A tcpScenario puts a closed load on a server process.
type tcpScenario struct {
	connections, depth int
}

// measure is the server's processor time per answer, and the responses per second that the load reached.
func (s tcpScenario) measure(e *engine, how effort) (cost, rate float64, err error) {
	p, err := start(e, how.serverProfile())
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	l, err := newLoad(p.address, inputGet)
	if err != nil {
		return 0, 0, err
	}
	defer l.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := pin(loadCore)
	if err != nil {
		return 0, 0, err
	}
	defer unpin()
	return s.drive(p, l, how)
}

func (s tcpScenario) drive(p *process, l *load, how effort) (cost, rate float64, err error) {
	if err := l.connect(p.address, inputGet, s.depth, s.connections); err != nil {
		return 0, 0, err
	}
	if err := send(l.clients); err != nil {
		return 0, 0, err
	}
	if _, err := l.runFor(how.warm); err != nil {
		return 0, 0, err
	}
	from := time.Now()
	before, err := cpuTime(p.pid())
	if err != nil {
		return 0, 0, err
	}
	answers, err := l.runFor(how.long)
	if err != nil {
		return 0, 0, err
	}
	after, err := cpuTime(p.pid())
	seconds := time.Since(from).Seconds()
	return float64(after-before) / float64(answers), float64(answers) / seconds, err
}

// An idleScenario counts what silent connections cost, each of which was answered once.
type idleScenario struct{ connections int }

// Before the count begins this many were answered, so that what a server sets up once does not count.
const idleFirst = 64

// measure is the growth of the server per connection: of its resident memory, which the collector was left to itself
// with, and of what is live after a collection.
func (s idleScenario) measure(e *engine, how effort) (resident, live float64, err error) {
	p, err := start(e, how.serverProfile())
	if err != nil {
		return 0, 0, err
	}
	defer p.stop()
	l, err := newLoad(p.address, inputGet)
	if err != nil {
		return 0, 0, err
	}
	defer l.close()
	before, err := s.settle(p, l, idleFirst, how.silent/5)
	if err != nil {
		return 0, 0, err
	}
	after, err := s.settle(p, l, s.connections, how.silent)
	if err != nil {
		return 0, 0, err
	}
	per := func(a, b int) float64 { return float64(a-b) / float64(s.connections) }
	// Silent connections must still be served.
	if err := askOnce(l, l.clients); err != nil {
		return 0, 0, err
	}
	return per(after.resident, before.resident), per(after.live, before.live), nil
}

type footprint struct{ resident, live int }

// settle adds connections, has each answered, waits, and looks. The resident memory comes first: the collection that
// live asks for would change it.
func (s idleScenario) settle(p *process, l *load, connections int, silent time.Duration) (f footprint, err error) {
	for left := connections; left > 0; left -= idleFirst {
		from := len(l.clients)
		if err := l.connect(p.address, inputGet, 1, min(left, idleFirst)); err != nil {
			return f, err
		}
		if err := askOnce(l, l.clients[from:]); err != nil {
			return f, err
		}
	}
	time.Sleep(silent)
	if f.resident, err = p.resident(); err != nil {
		return f, err
	}
	f.live, err = p.live()
	return f, err
}

// askOnce has each of the clients answered, as many at a time as with idleFirst.
func askOnce(l *load, clients []*client) error {
	for len(clients) > 0 {
		some := clients[:min(len(clients), idleFirst)]
		clients = clients[len(some):]
		if err := send(some); err != nil {
			return err
		}
		if err := l.wait(len(some), false); err != nil {
			return err
		}
	}
	return nil
}
