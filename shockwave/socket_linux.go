package shockwave

import (
	"io"
	"net"
	"syscall"
)

// A TCP connection is read and written by system calls of its own: net.Conn.Read
// wants its buffer before there are bytes, and an idle connection would hold one;
// net.Conn.Write does not tell how far it got, and the Write timeout must know.
// Waiting is still the runtime's.

// rawConn gives the access to a TCP socket, nil for other connections.
func rawConn(nc net.Conn) syscall.RawConn {
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// tryRead reads once; false says that there is nothing yet. Without dst it reads
// into a Ctx that it takes and, when it must wait, gives back.
func (c *conn) tryRead(fd uintptr) bool {
	dst := c.dst
	if dst == nil {
		if c.ctx == nil {
			c.takeCtx()
		}
		dst = c.ctx.in
	}
	n, err := syscall.Read(int(fd), dst)
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), dst)
	}
	switch {
	case err == syscall.EAGAIN:
		if c.dst == nil {
			c.giveCtx()
		}
		return false
	case err == nil && n == 0:
		err = io.EOF
	}
	c.got, c.readFault = max(n, 0), nil
	if err != nil {
		c.readFault = err
	}
	return true
}

// tryWrite writes src as far as the client takes it; false says that it must wait.
func (c *conn) tryWrite(fd uintptr) bool {
	c.writeFault = nil
	for len(c.src) > 0 {
		n, err := syscall.Write(int(fd), c.src)
		switch {
		case n > 0:
			c.src = c.src[n:]
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			c.mark(phaseWrite)
			return false
		case err != nil:
			c.writeFault = err
			return true
		}
	}
	return true
}

// hungUp reports whether the client closed its end, whether or not bytes are unread
// before that: the first byte of struct tcp_info is the state of the connection.
// What reads four bytes for an address reads them in any byte order.
func hungUp(fd uintptr) bool {
	const established, synReceived = 1, 3
	info, err := syscall.GetsockoptInet4Addr(int(fd), syscall.IPPROTO_TCP, syscall.TCP_INFO)
	state := info[0]
	return err != nil || state != established && state != synReceived
}

// tookSome reports whether the client took bytes since it was last asked. A wait to write
// does not tell: the kernel ends it only when a third of the send buffer, which may
// be megabytes, is free. Only the sweep calls it.
func (c *conn) tookSome() bool {
	raw := c.raw
	if raw == nil {
		raw = socketOf(c.nc)
	}
	if raw == nil {
		return false
	}
	before := c.seen.unsent
	raw.Control(func(fd uintptr) { c.seen.unsent = unsent(fd) })
	return c.seen.unsent != before
}

// unsent gives how much memory the bytes take that the client has not acknowledged,
// 0 if the kernel does not tell (Linux before 4.12). It shrinks when the client takes
// some, and grows when that made room for more.
func unsent(fd uintptr) uint32 {
	// SO_MEMINFO is eight numbers and more; the standard library reads so many for
	// ICMPv6 only.
	const memInfo, writeQueued = 55, 5
	info, err := syscall.GetsockoptICMPv6Filter(int(fd), syscall.SOL_SOCKET, memInfo)
	if err != nil {
		return 0
	}
	return info.Data[writeQueued]
}

// socketOf gives the access to the TCP socket below nc, TLS or not; nil if there is
// none.
func socketOf(nc net.Conn) syscall.RawConn { return rawConn(belowTLS(nc)) }
