package stdhttp

import (
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"titan.test/shockwave/parse"
)

// ErrBadRequest means that a request cannot be written as HTTP/1.1: its method,
// target, Host or a field contains bytes that would change where the message ends
// or what it means.
var ErrBadRequest = errors.New("stdhttp: request cannot be written as HTTP/1.1")

// bodyLength is the length that r's body is sent with: 0 for none, -1 for the chunked coding. Trailers need the
// chunked coding even when the length is known, as it may be in HTTP/2.
func bodyLength(r *http.Request) int64 {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return 0
	case len(r.Trailer) > 0:
		return -1
	case r.ContentLength == 0 && r.RequestURI == "":
		// A request made for a client, where 0 beside a body means that its length is unknown.
		return -1
	}
	return r.ContentLength
}

// appendHead appends r's head as HTTP/1.1, or as HTTP/1.0 if that is how it came, for a body of the given length.
func appendHead(b []byte, r *http.Request, length int64) ([]byte, error) {
	target, host := target(r), host(r)
	if !parse.ValidName(method(r)) || !visible(target) || !parse.ValidValue(host) {
		return nil, ErrBadRequest
	}
	b = append(b, method(r)...)
	b = append(b, ' ')
	b = append(b, target...)
	old := r.ProtoMajor == 1 && r.ProtoMinor == 0 && length >= 0
	if old {
		b = append(b, " HTTP/1.0\r\n"...)
	} else {
		b = append(b, " HTTP/1.1\r\n"...)
	}
	if host != "" || !old {
		b = appendField(b, "Host", host)
	}
	b, err := appendFields(b, r.Header)
	if err != nil {
		return nil, err
	}
	return append(appendFraming(b, r, length), "\r\n"...), nil
}

// appendFraming appends the fields that belong to one connection. They are made anew: what the client said about its
// connection does not hold for the one in memory.
func appendFraming(b []byte, r *http.Request, length int64) []byte {
	switch {
	case length < 0:
		b = appendField(b, "Transfer-Encoding", "chunked")
	case length > 0, r.Header.Get("Content-Length") != "" && r.RequestURI != "":
		b = appendField(b, "Content-Length", strconv.FormatInt(length, 10))
	}
	if names := trailerNames(r.Trailer); names != "" && length < 0 {
		b = appendField(b, "Trailer", names)
	}
	if wantsContinue(r, length) {
		b = appendField(b, "Expect", "100-continue")
	}
	if wantsUpgrade(r) {
		b = appendField(b, "Connection", "Upgrade")
		for _, protocol := range r.Header["Upgrade"] {
			b = appendField(b, "Upgrade", protocol)
		}
	}
	return b
}

// appendFields appends what is the message's own, and refuses what is not a field at all: middleware may have put
// anything into the map.
func appendFields(b []byte, fields http.Header) ([]byte, error) {
	for name, values := range fields {
		if ofConnection(name) {
			continue
		}
		for _, value := range values {
			if !parse.ValidName(name) || !parse.ValidValue(value) {
				return nil, ErrBadRequest
			}
			b = appendField(b, name, value)
		}
	}
	return b, nil
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}

// ofConnection names the fields of one connection and of framing, which are never carried over as they came.
func ofConnection(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// target is what stands in the request line. It is made from URL, not RequestURI, because http.StripPrefix and muxes
// change the former only.
func target(r *http.Request) string {
	if r.Method == http.MethodConnect {
		return r.Host
	}
	return r.URL.RequestURI()
}

func method(r *http.Request) string {
	if r.Method == "" {
		return http.MethodGet
	}
	return r.Method
}

func host(r *http.Request) string {
	if r.Host == "" {
		return r.URL.Host
	}
	return r.Host
}

func wantsContinue(r *http.Request, length int64) bool {
	return length != 0 && r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue")
}

func wantsUpgrade(r *http.Request) bool {
	if r.ProtoMajor != 1 || r.ProtoMinor == 0 || r.Header.Get("Upgrade") == "" {
		return false
	}
	return hasToken(r.Header["Connection"], "upgrade")
}

// hasToken looks for a member of a comma-separated list, without regard to case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(member), token) {
				return true
			}
		}
	}
	return false
}

func trailerNames(trailer http.Header) string {
	names := make([]string, 0, len(trailer))
	for name := range trailer {
		if parse.ValidName(name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// visible reports whether s is one part of a request line: not empty, no byte that ends it.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s != ""
}

// sendBody writes body, which is r's, behind its head: as it is when the length is known, else chunked with r's trailers,
// which net/http fills in when the body has ended.
func sendBody(w io.Writer, body io.Reader, r *http.Request, length int64) error {
	if length >= 0 {
		return sendCounted(w, body, length)
	}
	if err := sendChunked(w, body); err != nil {
		return err
	}
	end, err := appendFields([]byte("0\r\n"), r.Trailer)
	if err != nil {
		return err
	}
	_, err = w.Write(append(end, "\r\n"...))
	return err
}

func sendCounted(w io.Writer, body io.Reader, length int64) error {
	buf := pieces.Get().(*piece)
	defer pieces.Put(buf)
	for length > 0 {
		n, err := body.Read(buf[:min(length, int64(len(buf)))])
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		length -= int64(n)
		if err != nil && length > 0 {
			return err
		}
	}
	return nil
}

// sendChunked writes each piece as one chunk, in one write: the size is put right before the bytes.
func sendChunked(w io.Writer, body io.Reader) error {
	const before, after = len("ffff\r\n"), len("\r\n")
	buf := pieces.Get().(*piece)
	defer pieces.Put(buf)
	for {
		n, err := body.Read(buf[before : len(buf)-after])
		if n > 0 {
			size := strconv.AppendInt(make([]byte, 0, before), int64(n), 16)
			size = append(size, "\r\n"...)
			start := before - len(size)
			copy(buf[start:], size)
			end := before + n + copy(buf[before+n:], "\r\n")
			if _, err := w.Write(buf[start:end]); err != nil {
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
