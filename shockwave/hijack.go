package shockwave

import (
	"bytes"
	"net"
)

// Hijack hands the connection over: the engine forgets it when the handler
// returns, and does not close it. Unsent bytes of earlier responses are sent
// first. buffered is a copy of what was received after the part of the request
// that was read; read the rest from conn.
func (c *Ctx) Hijack() (conn net.Conn, buffered []byte, err error) {
	c.check()
	if c.sent || len(c.kept) > 0 || c.conn.hijacked {
		return nil, nil, c.tooLate()
	}
	c.pauseWatch()
	if err := c.flushNow(); err != nil {
		return nil, nil, err
	}
	c.conn.hijacked = true
	c.conn.server.leave(c.conn)
	c.readDeadline, c.writeDeadline = never, never
	c.conn.nc.SetDeadline(never)
	return c.conn.nc, bytes.Clone(c.unread()), nil
}
