//go:build !shockdebug

package shockwave

// check is where the tag shockdebug asks whether the Ctx is still the handler's.
func (c *Ctx) check() {}

// poison is where the tag shockdebug spoils what is given back.
func (b *buffer) poison() {}

// retire is where the tag shockdebug takes the Ctx from the handler for good.
func (c *conn) retire() {}
