package shockwave

import (
	"math/bits"
	"net"
	"sync"
)

// pools recycle what a connection needs only while there are bytes. They belong
// to a Server, for a parser knows its limits.
type pools struct {
	conns, ctxs sync.Pool
}

const (
	// bufferSize is how many bytes a Ctx receives and sends at once.
	bufferSize = 8 << 10
	// pooledSize is the largest buffer that stays with a Ctx in the pool.
	pooledSize = 64 << 10
)

func (s *Server) takeConn(nc net.Conn) *conn {
	c, ok := s.pools.conns.Get().(*conn)
	if !ok {
		c = &conn{server: s}
		c.readFn, c.writeFn = c.tryRead, c.tryWrite
	}
	c.nc = nc
	c.raw = rawConn(nc)
	return c
}

// giveConn takes back a connection that nothing refers to any more.
func (s *Server) giveConn(c *conn) {
	c.nc, c.raw, c.tls = nil, nil, nil
	c.readFault, c.writeFault, c.early, c.broken = nil, nil, nil, nil
	c.requests, c.hijacked = 0, false
	c.cancel.Store(nil)
	c.inBody.Store(0)
	c.late.read, c.late.write, c.late.body = 0, 0, 0
	s.pools.conns.Put(c)
}

// takeCtx gives the connection a Ctx.
func (c *conn) takeCtx() *Ctx {
	x, ok := c.server.pools.ctxs.Get().(*Ctx)
	if !ok {
		x = newCtx(c.server)
	}
	x.conn = c
	c.ctx = x
	return x
}

func newCtx(s *Server) *Ctx {
	x := &Ctx{in: make([]byte, bufferSize), out: make([]byte, 0, bufferSize)}
	x.parser.Init(s.limits.parser())
	x.trailers.Init(s.limits.parser())
	x.head = x.parser.Head()
	return x
}

// giveCtx takes the Ctx back; what was received and not read is lost.
func (c *conn) giveCtx() {
	x := c.ctx
	c.ctx = nil
	x.settle()
	x.parser.Reset()
	x.r, x.w, x.conn = 0, 0, nil
	x.out = x.out[:0]
	if x.retainable() {
		c.server.pools.ctxs.Put(x)
	}
}

// retainable reports whether no exchange has blown the Ctx up.
func (x *Ctx) retainable() bool {
	longest := max(cap(x.in), cap(x.spare), cap(x.out), cap(x.kept), cap(x.lines), cap(x.scratch), x.text.Cap())
	return longest <= pooledSize && !x.retired
}

// A buffer holds a long body for ReadBody.
type buffer struct{ b []byte }

// Sizes of pooled buffers are powers of two between these.
const (
	smallestBuffer = 12 // 4 KiB
	largestBuffer  = 22 // 4 MiB
)

var buffers [largestBuffer + 1]sync.Pool

// takeBuffer gives a buffer of at least n bytes.
func takeBuffer(n int) *buffer {
	class := max(bits.Len(uint(n-1)), smallestBuffer)
	if class > largestBuffer {
		return &buffer{make([]byte, n)}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, 1<<class)}
}

func giveBuffer(b *buffer) {
	b.poison()
	if class := bits.Len(uint(len(b.b) - 1)); class <= largestBuffer && len(b.b) == 1<<class {
		buffers[class].Put(b)
	}
}
