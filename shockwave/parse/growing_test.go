package parse_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// said puts what a parser made of a head into words; n is its length.
func said(p *parse.Parser, n int, err error) string {
	if err != nil {
		return err.Error()
	}
	h := p.Head()
	text := fmt.Sprintf("%d %s %q %q %d %v %v", n, h.Method(), h.Target(), h.Host(), h.ContentLength, h.Chunked, h.KeepAlive)
	for name, value := range h.All() {
		text += fmt.Sprintf(" %q:%q", name, value)
	}
	return text
}

// A line end that arrives behind bytes which were classified already must not be passed over, whatever lay in the
// buffer before: the fields would be read as a part of the target, and the body as a request.
func TestLineEndsBehindAPieceAreSeen(t *testing.T) {
	const behind = 6
	first := "GET /1 HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n"
	first = strings.Replace(first, "X: ", "X: "+strings.Repeat("z", 64-len(first)), 1)
	for length := range 64 {
		second := "GET /x HTTP/1.1\r\nHost: a\r\nX:" + strings.Repeat("y", 20+length) + " HTTP/1.1\r\nHost: b\r\n\r\n"
		buffer := bytes.Repeat([]byte("a"), 1024)
		var p parse.Parser
		p.Init(parse.Limits{})
		received := copy(buffer, first+second[:behind])
		next, err := p.Parse(buffer[:received], 0)
		if err != nil {
			t.Fatal(err)
		}
		received = copy(buffer, first+second)
		if _, err := p.Parse(buffer[:received], next); err != parse.ErrSecondHost {
			t.Fatalf("%d: %v, target %.60q", length, err, p.Head().Target())
		}
	}
}

// One parser on a buffer that fills piece by piece, over bytes of earlier requests, judges as a new one does that gets
// a copy of what has arrived.
func TestAGrowingBufferIsReadLikeACopy(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for range 30_000 {
		stream := pipelined(random)
		limits := parse.Limits{Head: []int{0, 200, 1000}[random.IntN(3)], Fields: []int{0, 3}[random.IntN(2)]}
		compareGrowing(t, random, stream, limits)
		if t.Failed() {
			return
		}
	}
}

func compareGrowing(t *testing.T, random *rand.Rand, stream []byte, limits parse.Limits) {
	buffer := make([]byte, len(stream)+256)
	for i := range buffer {
		buffer[i] = "aaaa \r\n:"[random.IntN(1+random.IntN(8))]
	}
	at := random.IntN(130)
	from, received := at, at
	var p parse.Parser
	p.Init(limits)
	for {
		end := min(received+1+random.IntN(1+random.IntN(150)), from+len(stream))
		received += copy(buffer[received:end], stream[received-from:])
		next, err := p.Parse(buffer[:received], at)
		var fresh parse.Parser
		fresh.Init(limits)
		n, freshErr := fresh.Parse(bytes.Clone(buffer[at:received]), 0)
		got, want := said(&p, next-at, err), said(&fresh, n, freshErr)
		if got != want {
			t.Errorf("%q at %d\n got %.300s\nwant %.300s", buffer[at:received], at, got, want)
			return
		}
		switch {
		case err == nil && p.Head().HasBody(), err != nil && err != parse.ErrIncomplete:
			return
		case err == nil:
			at = next
		}
		if received == from+len(stream) && (err != nil || at == received) {
			return
		}
	}
}

// pipelined makes some requests, and now and then what is none.
func pipelined(random *rand.Rand) (stream []byte) {
	odd := []string{"GET ", "/", " HTTP/1.1\r\n", "Host: a\r\n", "X: ", "\r\n", "\r\n\r\n", "Content-Length: 0\r\n", "\n", "\r", ":", "\x00"}
	many := func(char string, below int) string { return strings.Repeat(char, random.IntN(below)) }
	for range 1 + random.IntN(4) {
		if random.IntN(5) == 0 {
			for range random.IntN(8) {
				stream = append(stream, odd[random.IntN(len(odd))]...)
			}
			continue
		}
		stream = append(stream, "GET /"+many("p", 90)+" HTTP/1.1\r\n"...)
		if random.IntN(2) == 0 {
			stream = append(stream, "Host: a\r\n"...)
		}
		for range random.IntN(5) {
			stream = append(stream, "X"+many("n", 30)+": "+many("v", 80)+"\r\n"...)
			if random.IntN(4) == 0 {
				// What follows could be the end of a request line, if the line ends before it were missed.
				stream = append(stream, "Y: "+many("v", 80)+" HTTP/1.1\r\nHost: b\r\n"...)
			}
		}
		stream = append(stream, "\r\n"...)
	}
	return stream
}
