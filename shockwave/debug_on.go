//go:build shockdebug

package shockwave

import "bytes"

// poison is what bytes become that a handler has kept too long.
const poison = 0xdb

// check panics when the Ctx was given back: its handler has returned.
func (c *Ctx) check() {
	if c.retired {
		panic("shockwave: a Ctx was used after its handler returned; keep Ctx.Clone instead")
	}
}

// retire takes the Ctx from the handler for good: the connection goes on with
// another one, and code that kept this one, or bytes of it, finds out.
func (c *conn) retire() {
	old := c.ctx
	next := newCtx(c.server)
	next.conn, next.keep, next.body = c, old.keep, old.body
	next.in = bytes.Clone(old.in)
	next.r, next.w, next.base = old.r, old.w, old.base
	next.out = append(next.out, old.out...)
	c.ctx = next
	old.retired = true
	for _, data := range [][]byte{old.in, old.spare, old.out, old.kept, old.lines, old.kind, old.scratch} {
		for i := range data[:cap(data)] {
			data[:cap(data)][i] = poison
		}
	}
}

// poison spoils a buffer that is given back.
func (b *buffer) poison() {
	for i := range b.b {
		b.b[i] = poison
	}
}
