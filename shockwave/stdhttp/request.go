package stdhttp

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"titan.test/shockwave"
	"titan.test/shockwave/parse"
)

// newRequest makes the request that a net/http handler gets. It copies everything, because handlers may keep it. The
// error is that of a target which the engine passes on but no URL has, such as a path with a broken %XX.
func newRequest(u *turn) (*http.Request, error) {
	c := u.c
	target := string(c.Target())
	location, err := parseTarget(c.Method(), target)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method:        strings.Clone(c.Method()),
		URL:           location,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        copyHead(c),
		Body:          http.NoBody,
		ContentLength: c.ContentLength(),
		Host:          string(c.Host()),
		RemoteAddr:    c.RemoteAddr().String(),
		RequestURI:    target,
		TLS:           c.TLS(),
	}
	if c.IsHTTP10() {
		r.Proto, r.ProtoMinor = "HTTP/1.0", 0
	}
	r.Close = hasToken(r.Header["Connection"], "close") ||
		c.IsHTTP10() && !hasToken(r.Header["Connection"], "keep-alive")
	if r.ContentLength < 0 {
		r.TransferEncoding = []string{"chunked"}
		r.Trailer = promised(c)
	}
	r = r.WithContext(&requestContext{turn: u, base: baseContext(c), local: c.LocalAddr()})
	if r.ContentLength != 0 {
		r.Body = &body{r: r, turn: u}
	}
	return r, nil
}

// parseTarget reads the target of any form. That of CONNECT is a bare authority.
func parseTarget(method, target string) (*url.URL, error) {
	if method != http.MethodConnect {
		return url.ParseRequestURI(target)
	}
	u, err := url.ParseRequestURI("http://" + target)
	if err == nil {
		u.Scheme = ""
	}
	return u, err
}

// copyHead copies the fields in two allocations beside the map's: one for all values, one for all lists. Fields that
// net/http shows elsewhere in the request are left out: Trailer only where the body is chunked.
func copyHead(c *shockwave.Ctx) http.Header {
	count, size := 0, 0
	for _, value := range c.Fields() {
		count++
		size += len(value)
	}
	fields := make(http.Header, count)
	lists := make([]string, 0, count)
	var values strings.Builder
	values.Grow(size)
	for name, value := range c.Fields() {
		key := textproto.CanonicalMIMEHeaderKey(string(name))
		if key == "Host" || key == "Transfer-Encoding" || key == "Trailer" && c.ContentLength() < 0 {
			continue
		}
		start := values.Len()
		values.Write(value)
		copied := values.String()[start:]
		if list, ok := fields[key]; ok {
			fields[key] = append(list, copied)
			continue
		}
		lists = append(lists, copied)
		// The capacity ends with the list, so that appending to one leaves the next alone.
		fields[key] = lists[len(lists)-1 : len(lists) : len(lists)]
	}
	return fields
}

// promised gives the names in Trailer fields as net/http shows them before the body has ended: without values.
func promised(c *shockwave.Ctx) http.Header {
	if c.Field(parse.FieldTrailer) == nil {
		return nil
	}
	trailer := make(http.Header)
	for field, names := range c.Fields() {
		if !strings.EqualFold(string(field), "Trailer") {
			continue
		}
		for name := range strings.SplitSeq(string(names), ",") {
			if name = textproto.TrimString(name); parse.ValidName(name) {
				trailer[textproto.CanonicalMIMEHeaderKey(name)] = nil
			}
		}
	}
	return trailer
}

// A body is the request body that a handler reads, from any goroutine: those that read it for an upstream outlive the
// handler at times.
type body struct {
	r    *http.Request
	turn *turn

	// The turn's mutex guards what follows.
	ended  error // what Read goes on to say
	closed bool
}

func (b *body) Read(p []byte) (int, error) {
	b.turn.reads.Lock()
	defer b.turn.reads.Unlock()
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	c := b.turn.c
	if b.closed || c == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := c.Body().Read(p)
	if err != nil {
		b.end(c, err)
	}
	return n, b.ended
}

func (b *body) end(c *shockwave.Ctx, err error) {
	switch {
	case err == io.EOF:
		b.trailers(c)
	case errors.Is(err, shockwave.ErrBodyTooLong):
		err = &http.MaxBytesError{Limit: cmp.Or(c.Server().Limits.Body, parse.DefaultBody)}
	}
	b.ended = inTheirWords(err)
}

// trailers puts what came behind the body beside what was promised.
func (b *body) trailers(c *shockwave.Ctx) {
	for name, value := range c.Trailers() {
		if b.r.Trailer == nil {
			b.r.Trailer = make(http.Header)
		}
		key := textproto.CanonicalMIMEHeaderKey(string(name))
		b.r.Trailer[key] = append(b.r.Trailer[key], string(value))
	}
}

// Close ends reading. The engine does what is to be done with the rest.
func (b *body) Close() error {
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	b.closed = true
	return nil
}
