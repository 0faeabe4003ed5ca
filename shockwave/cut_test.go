package shockwave

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"
)

// A response that ends with the connection, and of which a part is missing, ends with
// an error at the client.
func TestPartOfAResponseDoesNotPassForTheWhole(t *testing.T) {
	begun := func(c *Ctx) {
		c.WriteString("part")
		c.Flush()
	}
	for name, handler := range map[string]Handler{
		"stream-fails": func(c *Ctx) {
			c.Stream("", func(w io.Writer) error {
				w.Write(make([]byte, 20000))
				return errors.New("no more")
			})
		},
		"panic":  func(c *Ctx) { begun(c); panic("boom") },
		"abort":  func(c *Ctx) { begun(c); panic(ErrAbort) },
		"goexit": func(c *Ctx) { begun(c); runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			server := func() *Server { return &Server{Handler: handler, ErrorLog: slog.New(slog.DiscardHandler)} }
			plain := dial(t, listening(t, server()))
			secure, _ := dialTLS(t, listeningTLS(t, server()))
			for _, p := range []*peer{plain, secure} {
				p.sends("GET / HTTP/1.0\r\n\r\n")
				var late net.Error
				if got, err := io.ReadAll(p.from); err == nil || errors.As(err, &late) && late.Timeout() {
					t.Errorf("%T: %d bytes and %v", p.conn, len(got), err)
				}
			}
		})
	}
}

// The engine gives up sending it: what the kernel still has is a part too.
func TestLateResponseDoesNotPassForTheWhole(t *testing.T) {
	written := make(chan error, 1)
	s := &Server{Timeouts: Timeouts{Write: 30 * time.Millisecond}, Handler: func(c *Ctx) {
		_, err := c.Write(make([]byte, 64<<20))
		written <- err
	}}
	p := dial(t, listening(t, s))
	p.sends("GET / HTTP/1.0\r\n\r\n")
	if err := <-written; err != ErrTimeout {
		t.Errorf("got %v", err)
	}
	if got, err := io.ReadAll(p.from); err == nil {
		t.Errorf("%d bytes and no error", len(got))
	}
}

// The whole of such a response ends without one.
func TestWholeResponseEndsInOrder(t *testing.T) {
	handler := func(c *Ctx) {
		c.WriteString("wh")
		c.Flush()
		c.WriteString("ole")
	}
	addr, secure := listening(t, &Server{Handler: handler}), listeningTLS(t, &Server{Handler: handler})
	for _, p := range []*peer{dial(t, addr), first2(dialTLS(t, secure))} {
		p.sends("GET / HTTP/1.0\r\n\r\n")
		p.expects(200, "whole")
		p.expectsEnd()
	}
}
