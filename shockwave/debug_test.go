//go:build shockdebug

package shockwave

import (
	"bytes"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
)

// With the tag, what a handler kept too long is poisoned and what it calls panics.
func TestMisuseIsFound(t *testing.T) {
	var kept *Ctx
	var data [][]byte
	reader := (*bodyReader)(nil)
	handler := func(c *Ctx) {
		body, _ := c.ReadBody(-1)
		kept, reader = c, c.Body().(*bodyReader)
		if c.Number() == 2 {
			return
		}
		data = [][]byte{c.Path(), c.Header("X"), c.QueryValue("q"), body}
		c.Send("text/plain", c.Path())
	}
	request := "POST /path?q=%41b HTTP/1.1\r\nHost: a\r\nX: value\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("b", 20000)
	inBubble(t, &Server{Handler: handler}, func(p *peer) {
		p.sendsBeside(request + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		p.expects(200, "/path")
		p.expects(200, "")
	})
	for i, b := range data {
		if !bytes.Equal(b, bytes.Repeat([]byte{poison}, len(b))) {
			t.Errorf("bytes %d: %q", i, b)
		}
	}
	misused(t, kept, reader)
}

// Also when the handler did not end as others do.
func TestMisuseIsFoundBehindOddEnds(t *testing.T) {
	for _, end := range []func(c *Ctx){
		func(c *Ctx) {
			conn, _, _ := c.Hijack()
			conn.Close()
		},
		func(*Ctx) { panic(ErrAbort) },
		func(*Ctx) { panic("oh") },
		func(*Ctx) { runtime.Goexit() },
	} {
		var kept *Ctx
		var path []byte
		handler := func(c *Ctx) {
			kept, path = c, c.Path()
			end(c)
		}
		inBubble(t, &Server{Handler: handler, ErrorLog: slog.New(slog.DiscardHandler)}, func(p *peer) {
			p.sends("GET /path HTTP/1.1\r\nHost: a\r\n\r\n")
			p.background.Go(func() { io.Copy(io.Discard, p.from) })
			<-p.served
		})
		if !bytes.Equal(path, bytes.Repeat([]byte{poison}, len("/path"))) {
			t.Errorf("got %q", path)
		}
		misused(t, kept, (*bodyReader)(kept))
	}
}

func misused(t *testing.T, kept *Ctx, reader *bodyReader) {
	t.Helper()
	for name, use := range map[string]func(){
		"Method":  func() { kept.Method() },
		"Path":    func() { kept.Path() },
		"Send":    func() { kept.Send("", nil) },
		"Set":     func() { kept.Set("X", "y") },
		"Context": func() { kept.Context() },
		"Body":    func() { reader.Read(make([]byte, 1)) },
		"Clone":   func() { kept.Clone() },
	} {
		func() {
			defer func() {
				if message, _ := recover().(string); !strings.Contains(message, "after its handler returned") {
					t.Errorf("%s: %q", name, message)
				}
			}()
			use()
		}()
	}
}
