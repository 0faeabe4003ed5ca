package parse_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// Requests follow each other in a buffer that is filled in pieces and compacted, as a connection's is. What
// the parser keeps from one to the next never shows.
func TestRequestsThroughOneBuffer(t *testing.T) {
	requests := []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"\r\nGET /after-empty-line HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /b HTTP/1.1\r\nHost: b.example\r\nContent-Length: 40\r\n\r\n" + strings.Repeat("\r\n :", 10),
		"PUT http://c.example:80/c?d HTTP/1.1\r\nHost: C.example:80\r\nX: y\r\n\r\n",
		"GET /" + strings.Repeat("long", 200) + " HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\nCookie: " + strings.Repeat("c=d; ", 400) + "\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", 90) + "\r\n",
	}
	random := rand.New(rand.NewPCG(7, 8))
	var p parse.Parser
	p.Init(parse.Limits{})
	for range 500 {
		var stream, want []string
		for range 1 + random.IntN(12) {
			request := requests[random.IntN(len(requests))]
			stream = append(stream, request)
			h, n, err := parse.Parse([]byte(request))
			want = append(want, describe(h, 0, n, err))
		}
		p.Reset()
		got := parseStream(t, &p, []byte(strings.Join(stream, "")), random)
		if len(got) != len(want) {
			t.Fatalf("%d heads, want %d, in %q", len(got), len(want), stream)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("head %d of %q\n got %s\nwant %s", i, stream, got[i], want[i])
			}
		}
	}
}

// parseStream feeds the stream through a buffer, of which the bytes behind the last head move to the
// front at random moments and those before are overwritten.
func parseStream(t *testing.T, p *parse.Parser, stream []byte, random *rand.Rand) (heads []string) {
	buffer := make([]byte, 8192)
	at, end, skip := 0, 0, 0
	for {
		if dropped := min(skip, end-at); dropped > 0 {
			at, skip = at+dropped, skip-dropped
		}
		next, err := 0, error(parse.ErrIncomplete)
		if skip == 0 {
			next, err = p.Parse(buffer[:end], at)
		}
		switch {
		case err == nil:
			h := p.Head()
			heads = append(heads, describe(h, at, next, nil))
			at, skip = next, int(max(h.ContentLength, 0))
			continue
		case !errors.Is(err, parse.ErrIncomplete):
			t.Fatalf("%q: %v", buffer[at:end], err)
		case len(stream) == 0:
			return heads
		}
		if at == end || random.IntN(3) == 0 {
			end = copy(buffer, buffer[at:end])
			at = 0
		}
		n := copy(buffer[end:min(len(buffer), end+1+random.IntN(900))], stream)
		stream, end = stream[n:], end+n
	}
}

// A long body passes through the buffer, and the head behind it comes to stand where bytes of the body
// were that looked just like it, but for one.
func TestBodyLeavesOtherBytes(t *testing.T) {
	const next = "GET /b HTTP/1.1\r\nHost: b\r\nCookie: c d\r\n\r\n"
	b := []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + next)
	var p parse.Parser
	p.Init(parse.Limits{})
	at, err := p.Parse(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[at:], strings.ReplaceAll(next, "c d", "c\x00d"))
	if _, err := p.Parse(b, at); err != parse.ErrValueByte {
		t.Error(err)
	}
}

// Behind a line at fault more is classified, but never so much that masks of its like, 1024 bytes behind
// it, come to stand in its place.
func TestFaultBeforeItsLike(t *testing.T) {
	line := "X:" + strings.Repeat("y", 60) + "\r\n"
	filler := "F:" + strings.Repeat("f", 1024-len(line)-4) + "\r\n"
	for before := range 70 {
		head := "GET /" + strings.Repeat("a", before) + " HTTP/1.1\r\nHost: a\r\n" +
			"X:\x00" + line[3:] + filler + line + filler + "\r\n"
		if _, _, err := parse.Parse([]byte(head)); err != parse.ErrValueByte {
			t.Fatalf("%d bytes before: %v", before, err)
		}
	}
}

// A name that differs in one letter from one that is heeded is none.
func TestOnlyWholeNamesAreHeeded(t *testing.T) {
	for name, value := range map[string]string{
		"Host": "b", "Expect": "x", "Connection": "a b", "Content-Length": "x", "Transfer-Encoding": "x y",
	} {
		for i := range name {
			for _, c := range "x~0" {
				other := name[:i] + string(c) + name[i+1:]
				if strings.EqualFold(other, name) {
					continue
				}
				head := "GET / HTTP/1.1\r\nHost: a\r\n" + other + ": " + value + "\r\n\r\n"
				if _, _, err := parse.Parse([]byte(head)); err != nil {
					t.Errorf("%s: %v", other, err)
				}
			}
		}
	}
}

func TestInProgress(t *testing.T) {
	var p parse.Parser
	p.Init(parse.Limits{})
	for _, step := range []struct {
		text string
		want bool
	}{
		{"", false}, {"\r", false}, {"\r\n", false}, {"\r\nG", true}, {"\r\nGET / HTTP/1.1\r\nHost: a\r\n", true},
		{"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", false},
	} {
		p.Parse([]byte(step.text), 0)
		if got := p.InProgress(); got != step.want {
			t.Errorf("%q: %v", step.text, got)
		}
	}
}

func TestFaultsAreNamed(t *testing.T) {
	const line = "GET / HTTP/1.1\r\n"
	for text, want := range map[string]error{
		"\nGET":                             parse.ErrBareLF,
		"\rG":                               parse.ErrBareCR,
		"\r\n\r\n":                          parse.ErrEmptyLines,
		"G@T":                               parse.ErrMethod,
		"ABCDEFGHIJKLMNOPQRSTUVWX":          parse.ErrMethodTooLong,
		"GET  ":                             parse.ErrNoTarget,
		"GET /\x80":                         parse.ErrTargetByte,
		"GET a HTTP/1.1\r\n":                parse.ErrTargetForm,
		"GET http://u@a/ HTTP/1.1\r\n":      parse.ErrTargetAuthority,
		"GET /" + strings.Repeat("a", 8192): parse.ErrTargetTooLong,
		"GET / HTTP/1.x":                    parse.ErrVersion,
		"GET / HTTP/2.0\r\n":                parse.ErrVersionNotServed,
		line + " a":                         parse.ErrObsFold,
		line + ":":                          parse.ErrEmptyFieldName,
		line + "a(":                         parse.ErrFieldNameByte,
		line + "a :":                        parse.ErrSpaceBeforeColon,
		line + "a: \x00":                    parse.ErrValueByte,
		line + "a: " + strings.Repeat("b", 16384):                                         parse.ErrHeadTooLong,
		line + strings.Repeat("a: b\r\n", 101):                                            parse.ErrTooManyFields,
		line + "\r\n":                                                                     parse.ErrNoHost,
		line + "Host: a\r\nHost: a\r\n\r\n":                                               parse.ErrSecondHost,
		line + "Host: a,b\r\n\r\n":                                                        parse.ErrHostMalformed,
		"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n":                                       parse.ErrHostDiffers,
		line + "Host: a\r\nConnection: a b\r\n\r\n":                                       parse.ErrConnectionOption,
		line + "Host: a\r\nExpect: more\r\n\r\n":                                          parse.ErrExpectation,
		line + "Host: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n":       parse.ErrLengthAndCoding,
		line + "Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n":                parse.ErrDuplicateContentLength,
		line + "Host: a\r\nContent-Length: +1\r\n\r\n":                                    parse.ErrContentLength,
		"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n":                            parse.ErrCodingInHTTP10,
		line + "Host: a\r\nTransfer-Encoding: chunked;a\r\n\r\n":                          parse.ErrCodingMalformed,
		line + "Host: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n":                   parse.ErrChunkedTwice,
		line + "Host: a\r\nTransfer-Encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n": parse.ErrChunkedNotLast,
		line + "Host: a\r\nTransfer-Encoding: gzip\r\n\r\n":                               parse.ErrCodingUnknown,
		"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 1\r\n\r\n":                  parse.ErrConnectWithBody,
		line + "Host: a\r\nContent-Length: 1048577\r\n\r\n":                               parse.ErrBodyTooLong,
	} {
		if _, _, err := parse.Parse([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%.80q: %v, want %v", text, err, want)
		}
	}
}

func headWith(fields int, value string) []byte {
	var b bytes.Buffer
	b.WriteString("GET /path?query HTTP/1.1\r\nHost: example.com:8080\r\nConnection: keep-alive\r\n")
	for i := range fields - 2 {
		fmt.Fprintf(&b, "X-Field-%d: %s\r\n", i, value)
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func TestNothingIsAllocated(t *testing.T) {
	for name, head := range map[string][]byte{
		"10 fields":       headWith(10, "value"),
		"64 fields":       headWith(64, "value"),
		"100 fields":      headWith(100, "value"),
		"8 KiB of a line": headWith(3, strings.Repeat("v", 8<<10)),
		"4 KiB in 4":      headWith(6, strings.Repeat("v", 1<<10)),
	} {
		var p parse.Parser
		p.Init(parse.Limits{})
		var bytesSeen int
		n := testing.AllocsPerRun(100, func() {
			p.Reset()
			if _, err := p.Parse(head, 0); err != nil {
				t.Fatal(err)
			}
			h := p.Head()
			for name, value := range h.All() {
				bytesSeen += len(name) + len(value)
			}
			for value := range h.Values("x-field-1") {
				bytesSeen += len(value)
			}
			value, _ := h.Known(parse.FieldHost)
			bytesSeen += len(value) + len(h.Method()) + len(h.Path()) + len(h.RawQuery())
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestFaultsAllocateNothing(t *testing.T) {
	head := []byte("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
	var p parse.Parser
	p.Init(parse.Limits{})
	length := 0
	if n := testing.AllocsPerRun(100, func() {
		p.Reset()
		_, err := p.Parse(head, 0)
		length += len(err.Error())
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A head that comes byte for byte is looked at once, so ten times the bytes take no more than some ten
// times the work; classified anew from its beginning each time they would take a hundred times.
func BenchmarkByteByByte(b *testing.B) {
	for _, size := range []int{1000, 10000} {
		head := headWith(3, strings.Repeat("v", size))
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var p parse.Parser
			p.Init(parse.Limits{})
			for b.Loop() {
				p.Reset()
				for n := range head {
					p.Parse(head[:n], 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(head)), "ns/byte")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for name, head := range map[string]string{
		"get":     "GET /api/v1/users HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n",
		"post":    "POST /api/v1/users HTTP/1.1\r\nHost: example.com\r\nContent-Type: application/json\r\nContent-Length: 25\r\n\r\n",
		"10":      string(headWith(10, "application/json")),
		"64":      string(headWith(64, "application/json")),
		"4KiB":    string(headWith(3, strings.Repeat("v", 4<<10))),
		"chunked": "POST / HTTP/1.1\r\nHost: example.com:8080\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
	} {
		data := []byte(head)
		b.Run(name, func(b *testing.B) {
			var p parse.Parser
			p.Init(parse.Limits{})
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				p.Reset()
				if _, err := p.Parse(data, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("16 pipelined", func(b *testing.B) {
		data := bytes.Repeat(headWith(3, "v"), 16)
		var p parse.Parser
		p.Init(parse.Limits{})
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			p.Reset()
			for at := 0; at < len(data); {
				next, err := p.Parse(data, at)
				if err != nil {
					b.Fatal(err)
				}
				at = next
			}
		}
	})
}
