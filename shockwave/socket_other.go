//go:build !linux

package shockwave

import (
	"net"
	"syscall"
)

// rawConn gives nothing: all connections are read and written as net.Conn.
func rawConn(net.Conn) syscall.RawConn { return nil }

func (c *conn) tryRead(uintptr) bool  { return true }
func (c *conn) tryWrite(uintptr) bool { return true }
func (c *conn) tookSome() bool        { return false }
func hungUp(uintptr) bool             { return false }

func socketOf(net.Conn) syscall.RawConn { return nil }
