package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"titan.test/shockwave"
	"titan.test/shockwave/parse"
)

// What a path may ask for at most.
const (
	maxBytes      = 1 << 30
	maxDelay      = 60_000
	maxChunks     = 100_000
	maxChunk      = 1 << 20
	maxEvents     = 100_000
	maxFields     = 1000
	maxFieldBytes = 1 << 20
	maxEcho       = 1 << 20
)

// paths is the part of -help that says what is served.
const paths = `
Paths, for every method:
  /, /echo          what was received, as JSON: name, method, target, path, query, proto, host, remote, request
                    (its number on the connection), fields, body (body_base64 if it is not UTF-8), trailers;
                    413 for a body over 1 MiB
  /bytes/N          N bytes (at most 1 GiB) with Content-Length: 0123456789abcdef, again and again
  /delay/MS         what / says, MS milliseconds (at most 60000) later
  /work/MS          the same of no more than -workers requests at a time: others wait for their turn, and have it even if
                    their client has gone meanwhile
  /chunked/N/SIZE   N chunks (at most 100000) of SIZE bytes (at most 1 MiB), each sent at once
  /sse/N            N server-sent events (at most 100000); ?interval=MS pauses before each but the first
  /status/CODE      this status, 200 to 599
  /stream           the request's body, piece by piece as it comes
  /trailers         the request's body, then the request's trailers and Echo-Length as trailers
  /early            103 with a Link field, then 200
  /headers/N/SIZE   N fields X-Echo-1 and so on (at most 1000) with values of SIZE bytes (N times SIZE at most 1 MiB)
  /close            200, and the connection is closed
  /abort, /abort/N  Content-Length: N+1 and N bytes (default 100), then the connection is cut
  /upgrade          101 to the protocol echo, which gives back each byte; the request's body is read away before, 413
                    as for /echo; 426 unless the request is HTTP/1.1 with Upgrade: echo and Connection: upgrade
  /health           200; POST /health/down and /health/up make it 503 and 200 again
  /stats            JSON: name, requests so far with this one, connections now
  /missing          404, and so is all below it
Every other path is handled like /. A path with invalid numbers gets 400. Each response has the field Echo-Name if -name is
given.
`

// A service is what one instance of the command serves.
type service struct {
	name     string
	requests atomic.Int64
	down     atomic.Bool
	// turns has room for as many requests as are worked on at a time.
	turns chan struct{}
}

func newService(name string, workers int) *service {
	return &service{name: name, turns: make(chan struct{}, workers)}
}

// routes has a response for the first part of a path; rest is what follows it.
var routes = map[string]func(s *service, c *shockwave.Ctx, rest []byte) error{
	"bytes":    (*service).bytes,
	"delay":    (*service).delay,
	"work":     (*service).work,
	"chunked":  (*service).chunked,
	"sse":      (*service).events,
	"status":   (*service).status,
	"stream":   (*service).stream,
	"trailers": (*service).trailers,
	"early":    (*service).early,
	"headers":  (*service).headers,
	"close":    (*service).close,
	"abort":    (*service).abort,
	"upgrade":  (*service).upgrade,
	"health":   (*service).health,
	"stats":    (*service).stats,
	"missing":  (*service).missing,
}

func (s *service) handle(c *shockwave.Ctx) {
	s.requests.Add(1)
	if s.name != "" {
		c.Set("Echo-Name", s.name)
	}
	first, rest, _ := bytes.Cut(bytes.TrimPrefix(c.Path(), []byte("/")), []byte("/"))
	respond, ok := routes[string(first)]
	if !ok {
		respond = (*service).echo
	}
	if err := respond(s, c, rest); err != nil {
		s.fail(c, err)
	}
}

// errNumber means that a path has no number where one belongs, or one that is too large.
var errNumber = errors.New("the path needs numbers within their bounds; see -help")

// fail responds with what went wrong. Once the head has been sent, the only way
// left to say so is to cut the connection.
func (s *service) fail(c *shockwave.Ctx, err error) {
	fault, isFault := errors.AsType[*parse.Error](err)
	switch {
	case c.Sent():
		panic(shockwave.ErrAbort)
	case errors.Is(err, errNumber):
		c.Error(http.StatusBadRequest, err.Error())
	case isFault:
		c.Error(fault.Status, fault.Reason)
	case errors.Is(err, shockwave.ErrBodyTooLong):
		c.Error(http.StatusRequestEntityTooLarge, err.Error())
	default:
		c.Error(http.StatusInternalServerError, err.Error())
	}
}

// A report is the JSON form of a request.
type report struct {
	Name       string      `json:"name"`
	Method     string      `json:"method"`
	Target     string      `json:"target"`
	Path       string      `json:"path"`
	Query      string      `json:"query"`
	Proto      string      `json:"proto"`
	Host       string      `json:"host"`
	Remote     string      `json:"remote"`
	Request    int         `json:"request"`
	Fields     [][2]string `json:"fields"`
	Body       string      `json:"body"`
	BodyBase64 string      `json:"body_base64,omitempty"`
	Trailers   [][2]string `json:"trailers"`
}

func (s *service) echo(c *shockwave.Ctx, _ []byte) error {
	body, err := c.ReadBody(maxEcho)
	if err != nil {
		return err
	}
	r := report{
		Name:     s.name,
		Method:   c.Method(),
		Target:   string(c.Target()),
		Path:     string(c.Path()),
		Query:    string(c.Query()),
		Proto:    c.Proto(),
		Host:     string(c.Host()),
		Remote:   c.RemoteAddr().String(),
		Request:  c.Number(),
		Fields:   lines(c.Fields()),
		Trailers: lines(c.Trailers()),
	}
	if utf8.Valid(body) {
		r.Body = string(body)
	} else {
		r.BodyBase64 = base64.StdEncoding.EncodeToString(body)
	}
	return c.JSON(r)
}

func lines(fields iter.Seq2[[]byte, []byte]) [][2]string {
	list := [][2]string{}
	for name, value := range fields {
		list = append(list, [2]string{string(name), string(value)})
	}
	return list
}

// pattern is what generated bodies are made of; its period divides its size.
var pattern = bytes.Repeat([]byte("0123456789abcdef"), 4<<10)

func (s *service) bytes(c *shockwave.Ctx, rest []byte) error {
	n, ok := number(rest, maxBytes)
	if !ok {
		return errNumber
	}
	if n <= len(pattern) {
		return c.Send("application/octet-stream", pattern[:n])
	}
	c.Set("Content-Type", "application/octet-stream")
	c.Set("Content-Length", strconv.Itoa(n))
	for n > 0 {
		piece := pattern[:min(n, len(pattern))]
		if _, err := c.Write(piece); err != nil {
			return err
		}
		n -= len(piece)
	}
	return nil
}

func (s *service) delay(c *shockwave.Ctx, rest []byte) error {
	ms, ok := number(rest, maxDelay)
	if !ok {
		return errNumber
	}
	if err := pause(c, ms); err != nil {
		return err
	}
	return s.echo(c, nil)
}

// work is as blind to clients that hang up as a computation is.
func (s *service) work(c *shockwave.Ctx, rest []byte) error {
	ms, ok := number(rest, maxDelay)
	if !ok {
		return errNumber
	}
	s.turns <- struct{}{}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	<-s.turns
	return s.echo(c, nil)
}

// pause waits unless the client hangs up.
func pause(c *shockwave.Ctx, ms int) error {
	if ms == 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.Context().Done():
		return c.Context().Err()
	}
}

func (s *service) chunked(c *shockwave.Ctx, rest []byte) error {
	count, size, ok := numbers(rest, maxChunks, maxChunk)
	if !ok {
		return errNumber
	}
	c.Set("Content-Type", "application/octet-stream")
	if err := c.Flush(); err != nil {
		return err
	}
	for range count {
		for left := size; left > 0; left -= min(left, len(pattern)) {
			if _, err := c.Write(pattern[:min(left, len(pattern))]); err != nil {
				return err
			}
		}
		if err := c.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) events(c *shockwave.Ctx, rest []byte) error {
	count, ok := number(rest, maxEvents)
	interval, okToo := number(c.QueryValue("interval"), maxDelay)
	if !ok || !okToo && c.QueryValue("interval") != nil {
		return errNumber
	}
	c.Set("Content-Type", "text/event-stream")
	c.Set("Cache-Control", "no-store")
	for i := range count {
		if i > 0 {
			if err := pause(c, interval); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(c, "id: %d\ndata: event %d\n\n", i+1, i+1); err != nil {
			return err
		}
		if err := c.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) status(c *shockwave.Ctx, rest []byte) error {
	code, ok := number(rest, 599)
	if !ok || code < 200 {
		return errNumber
	}
	if code == http.StatusNoContent || code == http.StatusNotModified {
		return c.SetStatus(code)
	}
	return c.Error(code, "")
}

func (s *service) stream(c *shockwave.Ctx, _ []byte) error {
	c.Set("Content-Type", "application/octet-stream")
	if err := c.Flush(); err != nil {
		return err
	}
	return copyBody(c, nil)
}

func (s *service) trailers(c *shockwave.Ctx, _ []byte) error {
	c.Set("Content-Type", "application/octet-stream")
	length := 0
	if err := copyBody(c, &length); err != nil {
		return err
	}
	if err := c.Trailer("Echo-Length", strconv.Itoa(length)); err != nil {
		return err
	}
	for name, value := range c.Trailers() {
		if err := c.Trailer(string(name), string(value)); err != nil {
			return err
		}
	}
	return nil
}

// copyBody sends the request's body back, each piece at once, and counts it.
func copyBody(c *shockwave.Ctx, length *int) error {
	body, buf := c.Body(), make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		if length != nil {
			*length += n
		}
		if n > 0 {
			if _, err := c.Write(buf[:n]); err != nil {
				return err
			}
			if err := c.Flush(); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *service) early(c *shockwave.Ctx, _ []byte) error {
	// A client of HTTP/1.0 does without.
	if err := c.Early("Link", "</style.css>; rel=preload; as=style"); err != nil && !errors.Is(err, shockwave.ErrInterim) {
		return err
	}
	return c.SendString("text/plain; charset=utf-8", "early\n")
}

func (s *service) headers(c *shockwave.Ctx, rest []byte) error {
	count, size, ok := numbers(rest, maxFields, maxFieldBytes)
	if !ok || count*size > maxFieldBytes {
		return errNumber
	}
	value := string(bytes.Repeat([]byte("v"), size))
	for i := range count {
		if err := c.Add("X-Echo-"+strconv.Itoa(i+1), value); err != nil {
			return err
		}
	}
	return c.SendString("text/plain; charset=utf-8", "headers\n")
}

func (s *service) close(c *shockwave.Ctx, _ []byte) error {
	c.Set("Connection", "close")
	return c.SendString("text/plain; charset=utf-8", "close\n")
}

func (s *service) abort(c *shockwave.Ctx, rest []byte) error {
	n := 100
	if len(rest) > 0 {
		var ok bool
		if n, ok = number(rest, len(pattern)); !ok {
			return errNumber
		}
	}
	c.Set("Content-Type", "application/octet-stream")
	c.Set("Content-Length", strconv.Itoa(n+1))
	if _, err := c.Write(pattern[:n]); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return err
	}
	panic(shockwave.ErrAbort)
}

func (s *service) upgrade(c *shockwave.Ctx, _ []byte) error {
	if !asksForEcho(c) {
		c.Set("Connection", "upgrade")
		c.Set("Upgrade", "echo")
		return c.Error(http.StatusUpgradeRequired, "")
	}
	// RFC 9110 section 7.8: the new protocol begins behind the request, its body included.
	if _, err := c.ReadBody(maxEcho); err != nil {
		return err
	}
	conn, received, err := c.Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return nil
	}
	if _, err := conn.Write(received); err != nil {
		return nil
	}
	// Either side ends it; no reason is reported.
	_, _ = io.Copy(conn, conn)
	return nil
}

// asksForEcho follows RFC 9110 section 7.8: Upgrade of HTTP/1.0 is ignored. So is one that Connection does not name.
func asksForEcho(c *shockwave.Ctx) bool {
	return c.Proto() == "HTTP/1.1" && lists(c, "Upgrade", "echo") && lists(c, "Connection", "upgrade")
}

// lists reports whether a comma-separated field has the member.
func lists(c *shockwave.Ctx, field, member string) bool {
	for name, value := range c.Fields() {
		if !strings.EqualFold(string(name), field) {
			continue
		}
		for one := range strings.SplitSeq(string(value), ",") {
			if strings.EqualFold(strings.TrimSpace(one), member) {
				return true
			}
		}
	}
	return false
}

func (s *service) health(c *shockwave.Ctx, rest []byte) error {
	if c.Method() == http.MethodPost {
		switch string(rest) {
		case "down":
			s.down.Store(true)
		case "up":
			s.down.Store(false)
		}
		return c.SetStatus(http.StatusNoContent)
	}
	if s.down.Load() {
		return c.Error(http.StatusServiceUnavailable, "down\n")
	}
	return c.SendString("text/plain; charset=utf-8", "ok\n")
}

func (s *service) stats(c *shockwave.Ctx, _ []byte) error {
	return c.JSON(struct {
		Name        string `json:"name"`
		Requests    int64  `json:"requests"`
		Connections int    `json:"connections"`
	}{s.name, s.requests.Load(), c.Server().Connections()})
}

func (s *service) missing(c *shockwave.Ctx, _ []byte) error { return c.Error(http.StatusNotFound, "") }

// number reads a decimal number from 0 to most.
func number(b []byte, most int) (int, bool) {
	n, err := strconv.ParseUint(string(b), 10, 63)
	return int(n), err == nil && n <= uint64(most)
}

func numbers(b []byte, most, mostToo int) (int, int, bool) {
	first, second, _ := bytes.Cut(b, []byte("/"))
	n, ok := number(first, most)
	m, okToo := number(second, mostToo)
	return n, m, ok && okToo
}
