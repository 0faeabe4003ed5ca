package shockwave

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A gap is a message with a place for words that mean something there. Random ones of them come nearer to what is
// almost valid than random bytes do.
type gap struct {
	message string // with %[1]s for the words
	words   []string
}

const chunkedHead = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

var gaps = []gap{
	{"%[1]s / HTTP/1.1\r\nHost: a\r\n\r\n", []string{
		"GET", "get", "PATCH", "POST", "OPTIONS", "CONNECT", "X", "-", "!", "~", "/", "\x80", " ", "\t",
		"\r\n", "\x00",
	}},
	{"GET %[1]s HTTP/1.1\r\nHost: a\r\n\r\n", targets},
	{"OPTIONS %[1]s HTTP/1.1\r\nHost: a\r\n\r\n", targets},
	{"CONNECT %[1]s HTTP/1.1\r\nHost: a\r\n\r\n", authorities},
	{"GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", authorities},
	{"GET http://%[1]s HTTP/1.1\r\nHost: a\r\n\r\n", authorities},
	{"GET http://a/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", authorities},
	{"GET / HTTP/1.1\r\nHost: %[1]s\r\n\r\n", authorities},
	{"GET / HTTP/1.1\r\nHost: [%[1]s]\r\n\r\n", addresses},
	{"GET / %[1]s\r\nHost: a\r\n\r\n", []string{
		"HTTP", "http", "/", "1", ".", "0", "1.1", "9", "2", " ", "HTTP/1.", "HTTP/", "\t", "11",
	}},
	{"GET / HTTP/1.1\r\nHost: a\r\n%[1]s\r\n\r\n", []string{
		"X", "a", ":", " ", "\t", "\r\n", "\r", "\n", "1", "-", "\"", "(", "\x00", "\x7f", "\x80", ":\r\n",
		"Host", "Y: z",
	}},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %[1]s\r\n\r\nhello", lengths},
	{"POST / HTTP/1.0\r\nContent-Length: %[1]s\r\n\r\nhello", lengths},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: %[1]s\r\n\r\n0\r\n\r\n", codings},
	{
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n%[1]s\r\n\r\n0\r\n\r\n",
		append(fieldNames("Content-Length", "Transfer-Encoding", "Connection", "Host", "Expect"), codings...),
	},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: %[1]s\r\n\r\n", options},
	{"GET / HTTP/1.0\r\nConnection: %[1]s\r\n\r\n", options},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: %[1]s\r\n\r\nhello", []string{
		"100-continue", "100-Continue", "100", "-continue", ",", " ", "\t", "\r\nExpect: ", ";", "x", "\"",
		"=",
	}},
	{chunkedHead + "%[1]s", chunkWords},
	{chunkedHead + "%[1]s\r\n0\r\n\r\n", chunkWords},
	{chunkedHead + "5;%[1]s\r\nhello\r\n0\r\n\r\n", extensionWords},
	{chunkedHead + "0\r\n%[1]s: 1\r\n\r\n", trailerNames},
	{chunkedHead + "0\r\n%[1]s\r\n\r\n", append(fieldNames("X", "If-", "If", "Date"), "\r\n", "\r", "\n", "\x00", "\xff", "-")},
}

var (
	addresses = []string{
		":", "::", "1", "0", "ffff", "00001", "g", "1.2.3.4", "255", "256", ".", "01", "1:", ":2", "v1.",
		"%25", "1:2:3:", "1:2:3:4:5:6:",
	}
	authorities = append([]string{
		"a", "A", ".", "-", "_", "~", "!", ",", ";", "=", "&", "%41", "%", "%4g", "@", " ", "\t", "[", "]",
		"[::1]", "[::1", ":80", ":0080", ":", "65535", "65536", "80", "443",
	}, addresses...)
	targets = []string{
		"/", "http://", "https://", "HTTPS://", "ftp://", "http:", "a", "A", "?", "#", "*", ":80", ":443",
		":", "@", "%", "%41", "[::1]", "//", "..", "\x7f", "\x80", "\"", "<", "\\", "|", "^", " ",
	}
	lengths = []string{
		"0", "5", "9", "00000", "000000000000000000", "9223372036854775807", "9223372036854775808",
		"1048576", "+", "-", ",", " ", "\t", "a", "0x", ".", "\r\nContent-Length: ", "5",
	}
	codings = []string{
		"chunked", "Chunked", "gzip", "identity", "trailers", ",", ", ", " ", "\t", ";", "q=1", "\"", "=",
		"\x80", "\r\nTransfer-Encoding: ", "chunke", "d",
	}
	options = []string{
		"close", "Close", "keep-alive", "Keep-Alive", "upgrade", ",", ", ", " ", "\t", "x", "\"", ";", "=",
		"\r\nConnection: ", "clos", "e", "te",
	}
	chunkWords = []string{
		"0", "1", "5", "a", "F", "g", "\r\n", "\r", "\n", ";", "x", "hello", " ", "\t", "\"", "0\r\n\r\n",
		"5\r\nhello\r\n", "1\r\na\r\n", "X: 1\r\n", "00000000", "\x00", "\x7f", "\x80", "100001",
		"7fffffffffffffff", "-", "+", "0x", "0\r\n",
	}
	extensionWords = []string{
		";", ";a", "a", "b=c", "=", "\"", "\\", "\"c\"", "=\"d", " ", "\t", "[", ",", "5", "\x80", "\x00", "\r", "\n", "\r\n",
	}
	// trailerNames are the names that no trailer has, and parts of them.
	trailerNames = fieldNames("Transfer-Encoding", "Content-Length", "Host", "Connection", "Trailer", "TE", "Upgrade",
		"Authorization", "Proxy-Authorization", "Proxy-Authenticate", "WWW-Authenticate", "Cookie", "Set-Cookie",
		"Content-Encoding", "Content-Type", "Content-Range", "Cache-Control", "Expect", "Range", "If-", "If-Match",
		"Max-Forwards", "Pragma", "Age", "Date", "Location", "Retry-After", "Vary", "Warning", "Keep-Alive",
		"Proxy-Connection", "X", "-", "If", "Content-", "Proxy-", "ETag", "Server", "Accept", "Cookie2", "s")
)

// fieldNames returns names in three ways to write them, and what stands around them.
func fieldNames(names ...string) []string {
	words := []string{":", " ", ": 1", "\r\n"}
	for _, name := range names {
		words = append(words, name, strings.ToLower(name), strings.ToUpper(name))
	}
	return words
}

// compose fills a gap with one to six words, mostly few: each more is one more chance of a fault that hides others.
func compose(random *rand.Rand) []byte {
	gap := gaps[random.IntN(len(gaps))]
	var words strings.Builder
	for range 1 + random.IntN(1+random.IntN(6)) {
		words.WriteString(gap.words[random.IntN(len(gap.words))])
	}
	return fmt.Appendf(nil, gap.message, words.String())
}
