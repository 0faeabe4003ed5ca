package shockwave

import (
	"encoding/json"
	"io"
	"strings"

	"titan.test/shockwave/parse"
)

// JSON responds with v as encoding/json writes it, with application/json. If
// encoding fails, nothing was sent.
func (c *Ctx) JSON(v any) error {
	c.check()
	c.text.Reset()
	if c.encoder == nil {
		c.encoder = json.NewEncoder(&c.text)
	}
	if err := c.encoder.Encode(v); err != nil {
		return err
	}
	text := c.text.Bytes()
	return c.Send("application/json", text[:len(text)-len("\n")])
}

// Error responds with a status from 400 to 599 and a short text/plain body:
// detail, or the status and its name if it is "". It replaces what was written
// but not sent yet. It leaves out what the handler set for another body:
// Content-Encoding, ETag, Last-Modified, Cache-Control.
func (c *Ctx) Error(status int, detail string) error {
	c.check()
	if status < 400 {
		return ErrBadStatus
	}
	if err := c.SetStatus(status); err != nil {
		return err
	}
	c.kept, c.written, c.length = c.kept[:0], 0, unset
	if len(c.lines) > 0 {
		for _, name := range ofTheBody {
			c.lines = without(c.lines, name)
		}
	}
	c.text.Reset()
	if detail == "" {
		detail = strings.TrimSuffix(statusLine(status)[len("HTTP/1.1 "):], "\r\n")
	}
	c.text.WriteString(detail)
	c.text.WriteByte('\n')
	return c.Send("text/plain; charset=utf-8", c.text.Bytes())
}

var ofTheBody = [...]string{"Content-Encoding", "ETag", "Last-Modified", "Cache-Control"}

// Redirect responds with a status from 300 to 399 and a Location.
func (c *Ctx) Redirect(status int, location string) error {
	c.check()
	if status < 300 || status > 399 {
		return ErrBadStatus
	}
	if err := c.Set("Location", location); err != nil {
		return err
	}
	c.status = status
	return c.Send("", nil)
}

// Stream responds with a body of unknown length that write produces; each Write
// is buffered until Limits.ResponseBuffer bytes have come or Flush is called. If
// write returns an error after something was sent, the connection is closed, so
// that the client cannot mistake the part for the whole; if nothing was sent,
// another response can follow.
func (c *Ctx) Stream(contentType string, write func(w io.Writer) error) error {
	c.check()
	if c.sent || len(c.kept) > 0 || c.conn.hijacked {
		return c.tooLate()
	}
	if contentType != "" {
		if err := c.Set("Content-Type", contentType); err != nil {
			return err
		}
	}
	err := write(c)
	switch {
	case err == nil:
		return c.finishBody()
	case !c.sent:
		c.kept, c.written = c.kept[:0], 0
	default:
		c.cutShort()
		c.keep, c.complete = false, true
	}
	return err
}

// Trailer sets a trailer field (RFC 9110 section 6.5). It makes the response
// chunked. It is left out for clients of HTTP/1.0, in responses without a body,
// and if the handler has set Content-Length. Names that cannot be trailers return
// ErrReservedField.
func (c *Ctx) Trailer(name, value string) error {
	c.check()
	switch {
	case c.complete:
		return ErrResponseComplete
	case !parse.ValidName(name) || !parse.ValidValue(value):
		return ErrBadField
	case !mayBeTrailer(name):
		return ErrReservedField
	}
	return c.appendBounded(&c.after, name, value, false)
}

// mayBeTrailer uses the parser's rule for trailers of requests.
func mayBeTrailer(name string) bool {
	var trailers parse.Trailers
	trailers.Init(parse.Limits{})
	_, err := trailers.Parse([]byte("0\r\n"+name+":\r\n\r\n"), len("0\r\n"))
	return err == nil
}

// Early sends 103 Early Hints with these field lines, name and value in turn (RFC
// 8297). To a client of HTTP/1.0 it sends nothing and returns ErrInterim.
func (c *Ctx) Early(fields ...string) error { return c.Interim(103, fields...) }

// Interim sends an interim response, 102 to 199, like Early.
func (c *Ctx) Interim(status int, fields ...string) error {
	c.check()
	switch {
	case c.sent || c.conn.hijacked:
		return c.tooLate()
	case status < 102 || status > 199:
		return ErrBadStatus
	case c.head.IsHTTP10():
		return ErrInterim
	}
	out := append(c.out, statusLine(status)...)
	for ; len(fields) > 0; fields = fields[2:] {
		if len(fields) == 1 || !parse.ValidName(fields[0]) || !parse.ValidValue(fields[1]) || kindOf(fields[0]) != anyField {
			return ErrBadField
		}
		out = appendLine(out, fields[0], fields[1])
	}
	c.out = append(out, "\r\n"...)
	return c.flushNow()
}
