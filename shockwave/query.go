package shockwave

import (
	"bytes"
	"iter"

	"titan.test/shockwave/parse"
)

// QueryValue returns the decoded value of the first pair of the query with that
// name, nil if there is none. '+' is a space. A value with malformed %XX is
// returned as it was sent.
func (c *Ctx) QueryValue(name string) []byte {
	for key, value := range c.QueryValues() {
		if string(key) == name {
			return value
		}
	}
	return nil
}

// QueryValues iterates over the pairs of the query, decoded as by QueryValue. The
// value of a pair without '=' is empty.
func (c *Ctx) QueryValues() iter.Seq2[[]byte, []byte] {
	c.check()
	return func(yield func(name, value []byte) bool) {
		for rest := c.head.RawQuery(); len(rest) > 0; {
			var pair []byte
			pair, rest, _ = bytes.Cut(rest, ampersand)
			name, value, found := bytes.Cut(pair, equals)
			if !found {
				value = pair[len(pair):]
			}
			if len(pair) > 0 && !yield(c.decodeQuery(name), c.decodeQuery(value)) {
				return
			}
		}
	}
}

var ampersand, equals, semicolon = []byte("&"), []byte("="), []byte(";")

func (c *Ctx) decodeQuery(text []byte) []byte {
	if decoded, ok := c.decode(text, true); ok {
		return decoded
	}
	return text
}

// decode decodes %XX, and '+' if plus; false if there is a malformed one. What it
// gives is text itself if there is nothing to decode, else it is in scratch.
func (c *Ctx) decode(text []byte, plus bool) ([]byte, bool) {
	if bytes.IndexByte(text, '%') < 0 && !(plus && bytes.IndexByte(text, '+') >= 0) {
		return text, true
	}
	c.untidy = true
	start := len(c.scratch)
	for i := 0; i < len(text); i++ {
		char := text[i]
		switch {
		case char == '+' && plus:
			char = ' '
		case char == '%':
			if len(text)-i < 3 || hexDigits[text[i+1]] < 0 || hexDigits[text[i+2]] < 0 {
				c.scratch = c.scratch[:start]
				return nil, false
			}
			char = byte(hexDigits[text[i+1]]<<4 | hexDigits[text[i+2]])
			i += 2
		}
		c.scratch = append(c.scratch, char)
	}
	return c.scratch[start:len(c.scratch):len(c.scratch)], true
}

// Cookie returns the value of the first cookie with that name, nil if there is
// none. Quotes around it are removed.
func (c *Ctx) Cookie(name string) []byte {
	for key, value := range c.Cookies() {
		if string(key) == name {
			return value
		}
	}
	return nil
}

// Cookies iterates over the cookies of all Cookie fields (RFC 6265 section 5.4).
func (c *Ctx) Cookies() iter.Seq2[[]byte, []byte] {
	c.check()
	return func(yield func(name, value []byte) bool) {
		name := parse.FieldCookie.String()
		for i := c.head.Next(name, 0); i >= 0; i = c.head.Next(name, i+1) {
			if !eachCookie(c.head.Value(i), yield) {
				return
			}
		}
	}
}

func eachCookie(list []byte, yield func(name, value []byte) bool) bool {
	for len(list) > 0 {
		var pair []byte
		pair, list, _ = bytes.Cut(list, semicolon)
		name, value, found := bytes.Cut(bytes.Trim(pair, " \t"), equals)
		if found && !yield(name, unquoted(value)) {
			return false
		}
	}
	return true
}

func unquoted(value []byte) []byte {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}
