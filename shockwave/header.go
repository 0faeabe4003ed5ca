package shockwave

import (
	"bytes"
	"strings"

	"titan.test/shockwave/parse"
)

// A fieldKind is what the engine must know about a field that a handler sets.
type fieldKind uint8

const (
	anyField fieldKind = iota
	contentLengthField
	contentTypeField
	connectionField
	transferEncodingField
	dateField
	serverField
)

func kindOf(name string) fieldKind {
	switch len(name) {
	case 4:
		return kindIf(dateField, name, "Date")
	case 6:
		return kindIf(serverField, name, "Server")
	case 10:
		return kindIf(connectionField, name, "Connection")
	case 12:
		return kindIf(contentTypeField, name, "Content-Type")
	case 14:
		return kindIf(contentLengthField, name, "Content-Length")
	case 17:
		return kindIf(transferEncodingField, name, "Transfer-Encoding")
	}
	return anyField
}

func kindIf(kind fieldKind, name, its string) fieldKind {
	if equalFold(name, its) {
		return kind
	}
	return anyField
}

// Set sets a field of the response and replaces all lines with that name. A name
// that is not a token, or a value with CR, LF, NUL or another control byte except
// HTAB, returns ErrBadField and changes nothing. Recipients drop white space at
// the ends of a value.
//
// Content-Length is honoured and enforced: writing more fails, writing less
// closes the connection. Connection may be set only to "close", which ends the
// connection after the response, or to "upgrade", which goes with Upgrade (RFC
// 9110 section 7.8) and is added to what the engine sends there.
// Transfer-Encoding can never be set (ErrReservedField). Date and Server replace
// the engine's.
func (c *Ctx) Set(name, value string) error { return c.setField(name, value, false) }

// SetBytes is Set for a value that is not a string; it does not retain the value.
func (c *Ctx) SetBytes(name string, value []byte) error { return c.setField(name, view(value), false) }

// Add adds a field line after those with the same name. Its errors are those of
// Set. Fields that may appear only once (Content-Length, Content-Type, Date,
// Server) are set instead.
func (c *Ctx) Add(name, value string) error { return c.setField(name, value, true) }

// AddBytes is Add for a value that is not a string.
func (c *Ctx) AddBytes(name string, value []byte) error { return c.setField(name, view(value), true) }

func (c *Ctx) setField(name, value string, add bool) error {
	c.check()
	if err := c.mayChangeHead(); err != nil {
		return err
	}
	if !parse.ValidName(name) || !parse.ValidValue(value) {
		return ErrBadField
	}
	switch kindOf(name) {
	case contentLengthField:
		return c.setLength(value)
	case connectionField:
		return c.setConnection(value)
	case transferEncodingField:
		return ErrReservedField
	case contentTypeField:
		c.kind = append(c.kind[:0], value...)
		return nil
	case dateField:
		c.noDate, add = true, false
	case serverField:
		c.noServer, add = true, false
	}
	return c.appendBounded(&c.lines, name, value, add)
}

// appendBounded adds a line, or sets it in place of those with its name.
func (c *Ctx) appendBounded(lines *[]byte, name, value string, add bool) error {
	if !add {
		*lines = without(*lines, name)
	}
	if len(*lines)+len(name)+len(value)+len(": \r\n") > c.conn.server.limits.ResponseFields {
		return ErrFieldsTooLong
	}
	*lines = appendLine(*lines, name, value)
	return nil
}

// setConnection takes the options that a handler may choose.
func (c *Ctx) setConnection(value string) error {
	closes, upgrade := false, false
	for option := range strings.SplitSeq(value, ",") {
		switch option = strings.Trim(option, " \t"); {
		case equalFold(option, "close"):
			closes = true
		case equalFold(option, "upgrade"):
			upgrade = true
		default:
			return ErrReservedField
		}
	}
	c.keep, c.upgrade = c.keep && !closes, c.upgrade || upgrade
	return nil
}

func (c *Ctx) setLength(value string) error {
	if len(value) == 0 || len(value) > 18 {
		return ErrBadField
	}
	n := int64(0)
	for i := range len(value) {
		if value[i]-'0' > 9 {
			return ErrBadField
		}
		n = n*10 + int64(value[i]-'0')
	}
	c.length = n
	return nil
}

// Del removes all lines of the response with that name, Date and Server too.
func (c *Ctx) Del(name string) {
	c.check()
	if c.mayChangeHead() != nil {
		return
	}
	switch kindOf(name) {
	case contentLengthField:
		c.length = unset
	case contentTypeField:
		c.kind = c.kind[:0]
	case connectionField:
		c.upgrade = false
	case dateField:
		c.noDate = true
	case serverField:
		c.noServer = true
	}
	c.lines = without(c.lines, name)
}

func (c *Ctx) mayChangeHead() error {
	if c.sent {
		return ErrHeadSent
	}
	return nil
}

func appendLine(lines []byte, name, value string) []byte {
	lines = append(lines, name...)
	lines = append(lines, ": "...)
	lines = append(lines, value...)
	return append(lines, "\r\n"...)
}

// without removes the lines with a name, in place.
func without(lines []byte, name string) []byte {
	for i := 0; i < len(lines); {
		end := i + bytes.IndexByte(lines[i:], '\n') + 1
		if len(lines)-i > len(name) && lines[i+len(name)] == ':' && equalFold(lines[i:i+len(name)], name) {
			lines = append(lines[:i], lines[end:]...)
			continue
		}
		i = end
	}
	return lines
}

// equalFold compares without regard to the case of ASCII letters.
func equalFold[S, T string | []byte](s S, t T) bool {
	if len(s) != len(t) {
		return false
	}
	for i := range len(s) {
		if s[i] != t[i] && lower(s[i]) != lower(t[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}

// setOwn sets a field that the engine knows to be good.
func (c *Ctx) setOwn(name, value string) {
	c.lines = appendLine(without(c.lines, name), name, value)
}
