package shockwave

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unchunk is the naive twin of chunks: it reads a whole body at once and cares for no
// time. It gives the data and what is behind the body; or that bytes are missing.
func unchunk(b string, line int, limit int64) (data, rest string, status int) {
	const missing = 0
	var total int64
	for {
		end := strings.IndexByte(b, '\n')
		head := b
		if end >= 0 {
			head = b[:end]
		}
		head, hasCR := strings.CutSuffix(head, "\r")
		if fault := badChunkLine(head, line, hasCR, end >= 0); fault {
			return "", "", 400
		}
		if end < 0 {
			return "", "", missing
		}
		digits, _, _ := strings.Cut(head, ";")
		size, _ := strconv.ParseUint(digits, 16, 64)
		if int64(size) > limit-total {
			return "", "", 413
		}
		total += int64(size)
		b = b[end+1:]
		if size == 0 {
			return data, b, 200
		}
		if uint64(len(b)) < size {
			return "", "", missing
		}
		data += b[:size]
		switch b = b[size:]; {
		case strings.HasPrefix(b, "\r\n"):
			b = b[2:]
		case b == "" || b == "\r":
			return "", "", missing
		default:
			return "", "", 400
		}
	}
}

// badChunkLine says whether a chunk line, complete or not, can no longer be good.
func badChunkLine(head string, line int, hasCR, complete bool) bool {
	digits, extension, hasExtension := strings.Cut(head, ";")
	for _, c := range []byte(digits) {
		if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return true
		}
	}
	if hasExtension && !mayBecomeExtensions(";"+extension, hasCR || complete) {
		return true
	}
	size, err := strconv.ParseUint(digits, 16, 64)
	ends := hasExtension || hasCR
	return len(head) > line || len(digits) > 16 || complete && !hasCR || ends && digits == "" ||
		digits != "" && (err != nil || size > math.MaxInt64)
}

var areExtensions = func() func(string) bool {
	const (
		token     = "[-!#$%&'*+.^_`|~0-9A-Za-z]+"
		control   = `\x00-\x08\x0a-\x1f\x7f`
		quoted    = `"([^"\\` + control + `]|\\[^` + control + `])*"`
		extension = `;[ \t]*` + token + `([ \t]*=[ \t]*(` + token + `|` + quoted + `))?`
	)
	return regexp.MustCompile(`^` + extension + `([ \t]*` + extension + `)*$`).MatchString
}()

// mayBecomeExtensions says whether text is a list of extensions or, unless it is complete, whether one of the
// ways to go on makes it one.
func mayBecomeExtensions(text string, complete bool) bool {
	if complete {
		return areExtensions(text)
	}
	goesOn := func(ending string) bool { return areExtensions(text + ending) }
	return slices.ContainsFunc([]string{"", "a", ";a", "\"", "a\""}, goesOn)
}

// chunked reads a body with chunks, in two pieces, up to the trailers.
func chunked(b string, split, line int, limit int64) (data, rest string, status int) {
	var d chunks
	for _, piece := range []string{b[:split], b[split:]} {
		rest += piece
		for rest != "" && d.state != chunkTrailers {
			n, fault := d.frame([]byte(rest), line, limit)
			if fault != nil {
				status, _ := statusOf(fault)
				return "", "", status
			}
			rest = rest[n:]
			n = int(min(d.left, int64(len(rest))))
			data, rest, d.left = data+rest[:n], rest[n:], d.left-int64(n)
		}
	}
	if d.state != chunkTrailers {
		return "", "", 0
	}
	return data, rest, 200
}

func FuzzChunked(f *testing.F) {
	for _, seed := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "0\r\n", "1;a=b\r\nx\r\n00\r\n", "a\r\n0123456789\r\n", "7fffffffffffffff\r\n",
		"8000000000000000\r\n",
		"00000000000000001\r\n", " 1\r\n", "1 \r\n", "1\n", "1\r\r\n", "1\r\nx\n", "1\r\nxy", "-1\r\n", "0x1\r\n", ";\r\n",
		"\r\n", "1;\"\r\n\"\r\n", "F\r\n", "1;\r\n", "1;a=\"b\\\";\"\t; c\r\n", "1;a = b ;c", "1;a=\"\xff\\", "1;a \r\n",
	} {
		f.Add(seed, uint8(20), uint8(100))
	}
	f.Fuzz(func(t *testing.T, b string, line, limit uint8) {
		if len(b) > 200 {
			return
		}
		data, rest, status := unchunk(b, int(line), int64(limit))
		for split := range len(b) + 1 {
			gotData, gotRest, gotStatus := chunked(b, split, int(line), int64(limit))
			if gotData != data || gotRest != rest || gotStatus != status {
				t.Fatalf("%q split at %d: got %q %q %d, want %q %q %d", b, split, gotData, gotRest, gotStatus, data, rest, status)
			}
		}
	})
}

// A pieces reader gives bytes in pieces of so many.
type pieces struct {
	data string
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.data == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.data)
	p.data = p.data[n:]
	return n, nil
}

// Whatever a client sends, however it comes: what it gets are whole responses, one for each
// request that a handler saw, and at most one refusal behind them.
func FuzzConn(f *testing.F) {
	for _, seed := range []string{
		get + get, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n" + get, post10 + "0123456789" + get,
		"POST /drop HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde" + get,
		"POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nT: 1\r\n\r\n" + get,
		"GET /close HTTP/1.1\r\nHost: a\r\n\r\n" + get, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + get,
		"GET /204 HTTP/1.1\r\nHost: a\r\n\r\n" + get,
		"POST /context HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc" + get, "\r\n\r\n" + get,
		"GET / HTTP/2.0\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n\x00",
		"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "GET /long HTTP/1.1\r\nHost: a\r\n\r\n" + get,
	} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, sent string, size uint8) {
		var first, whole connection
		first.serve(sent, int(size)+1)
		whole.serve(sent, len(sent)+1)
		first.check(t)
		if uncontinued(first.got) != uncontinued(whole.got) {
			t.Errorf("in pieces of %d:\n%q\nwhole:\n%q", int(size)+1, first.got, whole.got)
		}
	})
}

// uncontinued takes out what depends on how the bytes came: 100 (Continue) is not sent
// to a client that has begun already.
func uncontinued(answers string) string {
	return strings.ReplaceAll(undated(answers), "HTTP/1.1 100 Continue\r\n\r\n", "")
}

// A connection is what FuzzConn sees of one: the methods that handlers saw, and all that
// the client got.
type connection struct {
	methods []string
	got     string
}

func (c *connection) serve(sent string, size int) {
	s := &Server{Handler: c.handle, Limits: Limits{Body: 1000, Drain: 100, ResponseBuffer: 50}}
	conn := &tape{in: &pieces{sent, size}}
	s.ServeConn(conn)
	s.Close()
	c.got = conn.out.String()
}

func (c *connection) handle(x *Ctx) {
	c.methods = append(c.methods, x.Method())
	switch string(x.Path()) {
	case "/drop":
	case "/chunks":
		io.Copy(x, x.Body())
		x.Trailer("T", "1")
	case "/close":
		x.Set("Connection", "close")
	case "/204":
		x.SetStatus(204)
	case "/context":
		x.Context()
		echo(x)
	case "/long":
		writeInPieces(x, strings.Repeat("a", 100), 20)
	default:
		echo(x)
	}
}

func (c *connection) check(t *testing.T) {
	from := bufio.NewReader(strings.NewReader(c.got))
	for i := 0; ; {
		request := &http.Request{Method: "GET"}
		if i < len(c.methods) {
			request.Method = c.methods[i]
		}
		answer, err := http.ReadResponse(from, request)
		if errors.Is(err, io.ErrUnexpectedEOF) && from.Buffered() == 0 && i >= len(c.methods) {
			return
		}
		if err != nil {
			t.Fatalf("answer %d of %d: %v in %q", i, len(c.methods), err, c.got)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatalf("the body of response %d: %v in %q", i, err, c.got)
		}
		if answer.StatusCode >= 200 {
			i++
		}
		if i > len(c.methods)+1 || i == len(c.methods)+1 && answer.StatusCode < 400 {
			t.Fatalf("%d requests were seen, and answered with %q", len(c.methods), c.got)
		}
	}
}
