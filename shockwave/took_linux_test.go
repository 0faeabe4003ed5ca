package shockwave

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A client that takes bytes all the time, but too few for the kernel to say that there
// is room again, is not late; once it takes none, it is.
func TestSlowClientIsNotLate(t *testing.T) {
	const size = 32 << 20
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	send := func(c *Ctx) { c.Send("", make([]byte, size)) }
	sendFile := func(c *Ctx) { c.SendFile(path) }
	write := func(c *Ctx) { c.Write(make([]byte, size)) }
	for name, c := range map[string]struct {
		handler Handler
		secure  bool
	}{
		"send":          {send, false},
		"send-tls":      {send, true},
		"send-file":     {sendFile, false},
		"send-file-tls": {sendFile, true},
		"write":         {write, false},
	} {
		t.Run(name, func(t *testing.T) {
			served := make(chan *conn, 1)
			s := &Server{Timeouts: Timeouts{Write: time.Hour}, Handler: func(x *Ctx) {
				served <- x.conn
				c.handler(x)
			}}
			client := slowClient(t, s, c.secure)
			sweep := &sweeper{server: s, conn: <-served, now: time.Now()}
			sweep.takeOver()
			for range 2 {
				eventually(t, func() bool { return sweep.blocks() && sweep.untilTaken(t, client) })
				if sweep.late(2 * time.Hour) {
					t.Fatal("a client that took bytes is late")
				}
			}
			eventually(t, func() bool { return sweep.late(time.Hour) })
		})
	}
}

// slowClient has sent a request, and the kernel keeps little for it.
func slowClient(t *testing.T, s *Server, secure bool) net.Conn {
	t.Helper()
	if secure {
		p, conn := dialTLS(t, listeningTLS(t, s))
		conn.NetConn().(*net.TCPConn).SetReadBuffer(8 << 10)
		p.sends(get)
		return conn.NetConn()
	}
	p := dial(t, listening(t, s))
	p.conn.(*net.TCPConn).SetReadBuffer(8 << 10)
	p.sends(get)
	return p.conn
}

// A sweeper looks at a connection in place of the clock, at times of the test's.
type sweeper struct {
	server *Server
	conn   *conn
	now    time.Time
	// progress is that of the write which waits.
	progress uint64
}

// takeOver stops the clock.
func (w *sweeper) takeOver() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.stopClock()
}

// late looks at the connection, d after the last time.
func (w *sweeper) late(d time.Duration) bool {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.now = w.now.Add(d)
	return w.conn.overdue(w.now, &w.server.timeouts)
}

// blocks says that the server has sent nothing since the last look, and the kernel
// neither.
func (w *sweeper) blocks() bool {
	before, unsent := w.progress, w.conn.seen.unsent
	w.late(0)
	w.progress = w.conn.progress.Load()
	same := w.progress == before && w.conn.seen.unsent == unsent
	return same && phase(w.progress&(1<<phaseBits-1)) == phaseWrite && unsent > 0
}

// untilTaken has the client read until its kernel takes more of the response. It says
// whether the server waited all the time: whether less was taken than ends a wait.
func (w *sweeper) untilTaken(t *testing.T, client net.Conn) bool {
	piece := make([]byte, 4<<10)
	eventually(t, func() bool {
		if _, err := io.ReadFull(client, piece); err != nil {
			t.Fatal(err)
		}
		var now uint32
		socketOf(w.conn.nc).Control(func(fd uintptr) { now = unsent(fd) })
		return now != w.conn.seen.unsent
	})
	return w.conn.progress.Load() == w.progress
}
