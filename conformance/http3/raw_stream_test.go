package http3

import (
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// readAll takes the body of a request, which has to be whole.
func readAll(_ http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// A malformed request harms its stream alone (RFC 9114 section 4.1.2). The path is /bad in all of them.
type malformed struct {
	name string
	// lax says that quic-go's server lets it pass.
	lax  bool
	sent [][]byte
}

func bad(fields ...string) [][]byte { return [][]byte{headers(fields...)} }

var malformedRequests = []malformed{
	// RFC 9114 section 4.3.1.
	{"no :method", false, bad(without(":method", get("/bad"))...)},
	{"no :scheme", true, bad(without(":scheme", get("/bad"))...)},
	{"no :path", false, bad(without(":path", get("/bad"))...)},
	{"an empty :path", false, bad(append(without(":path", get("/bad")), ":path", "")...)},
	{"a :path that does not begin with /", false, bad(append(without(":path", get("/bad")), ":path", "bad")...)},
	{"neither :authority nor host", false, bad(without(":authority", get("/bad"))...)},
	{"an empty :authority", false, bad(append(without(":authority", get("/bad")), ":authority", "")...)},
	{":authority and another host", false, bad(get("/bad", "host", "other.test")...)},
	{"user information in :authority", false, bad(append(without(":authority", get("/bad")), ":authority", "me@"+authority)...)},
	{"CONNECT with :path", false, bad(append(without(":method", get("/bad")), ":method", "CONNECT")...)},
	{":protocol without CONNECT", false, bad(append([]string{":protocol", "websocket"}, get("/bad")...)...)},

	// RFC 9114 sections 4.2 and 4.3.
	{"an uppercase name", false, bad(get("/bad", "X-Upper", "1")...)},
	{"a connection field", false, bad(get("/bad", "connection", "close")...)},
	{"a keep-alive field", false, bad(get("/bad", "keep-alive", "timeout=1")...)},
	{"a proxy-connection field", false, bad(get("/bad", "proxy-connection", "close")...)},
	{"a transfer-encoding field", false, bad(post("/bad", "transfer-encoding", "chunked")...)},
	{"an upgrade field", false, bad(get("/bad", "upgrade", "websocket")...)},
	{"te other than trailers", false, bad(get("/bad", "te", "gzip")...)},
	{"two :path", false, bad(append([]string{":path", "/bad"}, get("/bad")...)...)},
	{"two :method", false, bad(append([]string{":method", "GET"}, get("/bad")...)...)},
	{"two :authority", false, bad(append([]string{":authority", authority}, get("/bad")...)...)},
	{"a pseudo-header field after a regular one", false, bad(append([]string{"x-first", "1"}, get("/bad")...)...)},
	{"an unknown pseudo-header field", false, bad(append([]string{":unknown", "1"}, get("/bad")...)...)},
	{":status in a request", false, bad(append([]string{":status", "200"}, get("/bad")...)...)},
	{"an empty name", false, bad(get("/bad", "", "value")...)},
	{"a space in a name", false, bad(get("/bad", "x y", "1")...)},
	{"a colon in a name", false, bad(get("/bad", "x:y", "1")...)},
	{"NUL in a value", false, bad(get("/bad", "x-nul", "a\x00b")...)},
	{"CR in a value", false, bad(get("/bad", "x-cr", "a\rb")...)},
	{"LF in a value", false, bad(get("/bad", "x-lf", "a\nb: c")...)},
	{"a space in :path", true, bad(append(without(":path", get("/bad")), ":path", "/bad HTTP/1.1")...)},
	{"LF in :path", false, bad(append(without(":path", get("/bad")), ":path", "/bad\nx: y")...)},
	{"LF in :method", false, bad(append(without(":method", get("/bad")), ":method", "GET\n")...)},
	{"LF in :authority", false, bad(append(without(":authority", get("/bad")), ":authority", authority+"\nx: y")...)},
	{"a content-length that is no number", false, bad(post("/bad", "content-length", "+1")...)},
	{"two content-lengths", false, bad(post("/bad", "content-length", "1", "content-length", "2")...)},
	{"a pseudo-header field in trailers", true, [][]byte{headers(post("/bad")...), data("body"), headers(":path", "/")}},
	{"an uppercase name in trailers", true, [][]byte{headers(post("/bad")...), data("body"), headers("X-Upper", "1")}},
	{"a connection field in trailers", true, [][]byte{headers(post("/bad")...), data("body"), headers("connection", "close")}},
}

// completed are the requests to /bad that the upstream has got whole.
type completed struct {
	lock  sync.Mutex
	names []string
}

func (c *completed) serve(w http.ResponseWriter, r *http.Request) {
	readAll(w, r)
	c.lock.Lock()
	defer c.lock.Unlock()
	c.names = append(c.names, r.Method+" "+r.URL.Path)
}

func (c *completed) none(t *testing.T) {
	t.Helper()
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(c.names) > 0 {
		t.Errorf("the upstream has got %q", c.names)
	}
	c.names = nil
}

// refused is what may become of a malformed request: its stream is reset, or it has a response that says so.
func (r received) refused() bool {
	code, reset := r.resetCode()
	switch {
	case r.status == http.StatusBadRequest:
		return r.err == io.EOF || reset && (code == http3.ErrCodeNoError || code == http3.ErrCodeMessageError)
	case r.status == 0:
		return reset && code == http3.ErrCodeMessageError
	default:
		return false
	}
}

func TestMalformedRequests(t *testing.T) {
	var completed completed
	peer := start(t, alive(completed.serve))
	for _, row := range malformedRequests {
		t.Run(row.name, func(t *testing.T) {
			if row.lax && judgesItself() {
				t.Skip("quic-go's server is lax here")
			}
			raw := peer.dialRaw(t)
			raw.greets()
			if got := read(raw.asks(row.sent...)); !got.refused() {
				t.Errorf("%d %.200q, %v", got.status, got.body, got.err)
			}
			raw.goesOn()
			peer.unharmed(t)
			completed.none(t)
		})
	}
}

// RFC 9114 section 4.1.2: the lengths of all DATA frames have to be what content-length says.
func TestContentLengthAndDataDiffer(t *testing.T) {
	var completed completed
	peer := start(t, alive(completed.serve))
	rows := []struct {
		name string
		sent [][]byte
		// long says that the upstream may have all that was announced before the peer sees that there is more.
		long bool
	}{
		{"no DATA", [][]byte{headers(post("/bad", "content-length", "5")...)}, false},
		{"less", [][]byte{headers(post("/bad", "content-length", "5")...), data("four")}, false},
		{"less, and trailers", [][]byte{headers(post("/bad", "content-length", "5")...), data("four"), headers("x-trailer", "1")}, false},
		{"more", [][]byte{headers(post("/bad", "content-length", "5")...), data("sixsix")}, true},
		{"more in another frame", [][]byte{headers(post("/bad", "content-length", "5")...), data("five5"), data("6")}, true},
		{"some where there is none", [][]byte{headers(post("/bad", "content-length", "0")...), data("1")}, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if !row.long && judgesItself() {
				t.Skip("quic-go's server leaves it to the handler")
			}
			raw := peer.dialRaw(t)
			raw.greets()
			got := read(raw.asks(row.sent...))
			if code, reset := got.resetCode(); !reset || code != http3.ErrCodeMessageError {
				t.Errorf("%d %.200q, %v", got.status, got.body, got.err)
			}
			raw.goesOn()
			peer.unharmed(t)
			if !row.long {
				completed.none(t)
			}
		})
	}
}

// RFC 9114 section 4.1: a request needs a head.
func TestStreamsWithoutAHead(t *testing.T) {
	peer := start(t, alive(http.NotFound))
	rows := []struct {
		name string
		sent []byte
	}{
		{"nothing", nil},
		{"an unknown frame", frame(frameGrease, 1, 2, 3)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			raw := peer.dialRaw(t)
			raw.greets()
			got := read(raw.asks(row.sent))
			if code, reset := got.resetCode(); !reset || code != http3.ErrCodeRequestIncomplete {
				t.Errorf("%d, %v", got.status, got.err)
			}
			raw.goesOn()
			peer.unharmed(t)
		})
	}
}
