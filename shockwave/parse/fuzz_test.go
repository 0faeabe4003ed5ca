package parse_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// agree parses in whole, byte for byte and in two pieces, and compares what comes of it with the twin's
// verdict, and the faults with each other.
func agree(t *testing.T, in []byte, l parse.Limits) {
	t.Helper()
	want := naive(in, l)
	var p parse.Parser
	p.Init(l)
	start := 0
	if len(in) > 1 && in[0] == '\r' {
		start = 2
	}
	end, first := p.Parse(in, 0)
	if got := describe(p.Head(), start, end, first); got != want {
		t.Fatalf("%q\n got %s\nwant %s", in, got, want)
	}
	p.Reset()
	err := error(parse.ErrIncomplete)
	for n := 0; n <= len(in) && err == parse.ErrIncomplete; n++ {
		end, err = p.Parse(bytes.Clone(in[:n]), 0)
	}
	if got := describe(p.Head(), start, end, err); got != want || !errors.Is(err, first) {
		t.Fatalf("byte for byte: %q\n got %s (%v)\nwant %s (%v)", in, got, err, want, first)
	}
	step := 1 + len(in)/64
	for split := 0; split <= len(in); split += step {
		p.Reset()
		// The bytes move between the two calls, as when a buffer is compacted.
		at := 1 + split%70
		_, err = p.Parse(append(make([]byte, at), in[:split]...), at)
		if err == parse.ErrIncomplete {
			to := split % 3
			end, err = p.Parse(append(make([]byte, to), in...), to)
			end -= to
		}
		if got := describe(p.Head(), start, end, err); got != want || !errors.Is(err, first) {
			t.Fatalf("split at %d: %q\n got %s (%v)\nwant %s (%v)", split, in, got, err, want, first)
		}
	}
}

var fuzzLimits = []parse.Limits{
	{Head: 16384, Target: 8192, Fields: 100, Body: 1 << 20},
	{Head: 120, Target: 20, Fields: 3, Body: 10},
}

func FuzzHead(f *testing.F) {
	for _, v := range vectors(f) {
		if len(v.Input) < 2000 {
			f.Add([]byte(v.Input), false)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, tight bool) {
		l := fuzzLimits[0]
		if tight {
			l = fuzzLimits[1]
		}
		agree(t, in, l)
	})
}

// Heads put together from pieces that matter get further than bytes at random.
func TestHeadsAtRandom(t *testing.T) {
	pieces := strings.Split("GET |POST |CONNECT |OPTIONS |X-Y |/|/a?b|*|a:80|http://a|https://B:1/c?d| HTTP/1.1\r\n| HTTP/1.0\r\n|"+
		" HTTP/1.5\r\n| HTTP/2.0\r\n|Host: a\r\n|host:a:80\r\n|Host: [::1]\r\n|HOST: b:1 \r\n|Host:\r\n|Content-Length: 5\r\n|"+
		"content-length:12\r\n|Content-Length: 5x\r\n|Transfer-Encoding: chunked\r\n|Transfer-Encoding: gzip, chunked\r\n|"+
		"transfer-encoding: chunked,\r\n|Connection: close\r\n|connection: Keep-Alive, upgrade\r\n|Connection: keep-alive\r\n|"+
		"Connection: a b\r\n|Upgrade: x\r\n|Expect: 100-continue\r\n|Expect: x\r\n|Accept: */*\r\n|A:\t b \t\r\n|: x\r\n|X : y\r\n|"+
		" fold\r\n|X: \x00\r\n|X: \x80\xff\r\n|X: a\rb\r\n|X\r\n|\r\n|\r\n\r\n|\n|\r|\x7f|#|%41|: |Host: example.com.\r\n|"+
		"Host: exa_mple.com\r\n|Cookie: "+strings.Repeat("c=d; ", 30)+"\r\n|X: "+strings.Repeat("y", 700)+"\r\n", "|")
	random := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		var in []byte
		if random.IntN(4) > 0 {
			in = append(in, "GET / HTTP/1.1\r\nHost: a\r\n"...)
		}
		for range random.IntN(8) {
			in = append(in, pieces[random.IntN(len(pieces))]...)
		}
		if random.IntN(3) > 0 {
			in = append(in, "\r\n"...)
		}
		if random.IntN(3) == 0 && len(in) > 0 {
			in[random.IntN(len(in))] = byte(random.IntN(256))
		}
		agree(t, in, fuzzLimits[random.IntN(2)])
	}
}
