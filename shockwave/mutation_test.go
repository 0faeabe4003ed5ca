package shockwave

import (
	"bytes"
	"math/rand/v2"
)

// fragments are bytes that some rule of message framing turns on.
var fragments = []string{
	"\r\n", "\n", "\r", "\x00", "\t", " ", ":", ";", ",", "\x0b", "\x7f", "\x80", "\xff", "#", "?", "*", "/", "@", "%", "%41", "\"", "\\",
	"[::1]", "[", "]", ":80", ":080", ":65536", "http://", "HTTPS://a", "http://a:80/", "a", "b",
	"0", "5", "f", "00000000", "+", "-", "_", "0x", "7fffffffffffffff", "8000000000000000", "9223372036854775807", "9223372036854775808",
	"chunked", "Chunked", "gzip", "gzip, ", ", chunked", "identity", "close", "keep-alive", "100-continue",
	"Transfer-Encoding: chunked\r\n", "Transfer-Encoding:\r\n", "transfer-encoding: gzip\r\n",
	"Content-Length: 5\r\n", "Content-Length: 0\r\n", "content-length:5\r\n", "Content-Length:\r\n",
	"Host: a\r\n", "Host: b\r\n", "Host:\r\n", "host:a:80\r\n",
	"Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: x, close\r\n", "Connection: ,\r\n", "Connection: a b\r\n",
	"Expect: 100-continue\r\n", "Expect: x\r\n", "Expect:\r\n", "X-Any: \xe9\t1\r\n", "X: 1\r\n", "X:\r\n", "X\r\n", " folded\r\n",
	"\r\n\r\n", "0\r\n\r\n", "0\r\n", "5\r\nhello\r\n", "5;a=\"b\"\r\n", ";x", "=", "Date: x\r\n", "If-X: 1\r\n",
	"HTTP/1.0", "HTTP/1.1", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", " HTTP/1.1",
	"GET ", "POST ", "HEAD ", "CONNECT ", "OPTIONS ", "CONNECT a:1 ", "OPTIONS * ",
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
}

// mutate returns a copy of input after one or two small changes of the kinds that parsers have tripped
// over; other is a second message, to splice with.
func mutate(random *rand.Rand, input, other []byte) []byte {
	input = bytes.Clone(input)
	for range 1 + random.IntN(2) {
		input = mutateOnce(random, input, other)
	}
	return input
}

func mutateOnce(random *rand.Rand, input, other []byte) []byte {
	at := random.IntN(len(input) + 1)
	end := min(len(input), at+1+random.IntN(8))
	fragment := []byte(fragments[random.IntN(len(fragments))])
	switch random.IntN(10) {
	case 0:
		return bytes.Join([][]byte{input[:at], input[end:]}, nil)
	case 1:
		return bytes.Join([][]byte{input[:end], input[at:]}, nil)
	case 2:
		return swap(random, input)
	case 3:
		return bytes.Join([][]byte{input[:at], fragment, input[at:]}, nil)
	case 5:
		return bytes.Join([][]byte{input[:at], fragment, input[end:]}, nil)
	case 6:
		return bytes.Join([][]byte{input[:at], other[random.IntN(len(other)+1):]}, nil)
	case 4, 7:
		return insertLine(random, input, fragment)
	case 8:
		return flip(random, input)
	default:
		return input[:at]
	}
}

// swap exchanges two lines.
func swap(random *rand.Rand, input []byte) []byte {
	lines := bytes.SplitAfter(input, []byte("\n"))
	a, b := random.IntN(len(lines)), random.IntN(len(lines))
	lines[a], lines[b] = lines[b], lines[a]
	return bytes.Join(lines, nil)
}

// insertLine puts a fragment where a line begins: most framing fields only matter there.
func insertLine(random *rand.Rand, input, fragment []byte) []byte {
	lines := bytes.SplitAfter(input, []byte("\n"))
	at := random.IntN(len(lines))
	lines[at] = append(bytes.Clone(fragment), lines[at]...)
	return bytes.Join(lines, nil)
}

func flip(random *rand.Rand, input []byte) []byte {
	if len(input) > 0 {
		input[random.IntN(len(input))] ^= 1 << random.IntN(8)
	}
	return input
}
