package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
)

// The sums were computed with bench/engines/src/payload.rs, which the load generator goes by.
func TestTheBodiesAreThoseTheLoadGeneratorExpects(t *testing.T) {
	peer := serve(t)
	sums := []struct {
		method, target string
		posted         []byte
		data           int
		fnv1a          uint64
	}{
		{"GET", "/small/0", nil, 128, 0xdd70a71d939488f3},
		{"GET", "/small/15", nil, 128, 0xc6580ce767888429},
		{"GET", "/30k", nil, 30720, 0xd302166e143facc8},
		{"GET", "/1m", nil, 1048576, 0x0295634f13071859},
		{"POST", "/post", pattern[:16384], 36, 0xd32c0292a25a1e4b},
	}
	for _, want := range sums {
		status, body := peer.ask(want.method, want.target, want.posted)
		if status != 200 || len(body) != want.data || fnv1a(body) != want.fnv1a {
			t.Errorf("%s %s: %d, %d bytes, fnv1a %016x", want.method, want.target, status, len(body), fnv1a(body))
		}
	}
}

func TestTheReceiptIsForTheLengthThatWasPosted(t *testing.T) {
	peer := serve(t)
	for _, size := range []int{1, 16384, 16384, 0, largest} {
		status, body := peer.ask("POST", "/post", pattern[:size])
		if want := receiptFor(size); status != 200 || !bytes.Equal(body, want) {
			t.Errorf("%d bytes: %d %q, want %q", size, status, body, want)
		}
	}
}

func TestWhatIsWrongIsRefused(t *testing.T) {
	changed := bytes.Clone(pattern[:16384])
	changed[9000] ^= 1
	refusals := []struct {
		name, method, target string
		posted               []byte
		status               int
	}{
		{"changed byte", "POST", "/post", changed, 422},
		{"no such variant", "GET", "/small/16", nil, 404},
		{"body for what is read only", "POST", "/30k", pattern[:5], 405},
		{"too long", "POST", "/post", make([]byte, largest+1), 413},
	}
	for _, want := range refusals {
		if status, _ := serve(t).ask(want.method, want.target, want.posted); status != want.status {
			t.Errorf("%s: %d, want %d", want.name, status, want.status)
		}
	}
}

// A peer is the client's end of one kept connection.
type peer struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func serve(t *testing.T) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := newServer()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = server.Close()
		<-ended
	})
	return &peer{t, conn, bufio.NewReader(conn)}
}

// ask sends and receives at the same time: a refusal may come before all of posted was taken.
func (p *peer) ask(method, target string, posted []byte) (status int, body []byte) {
	p.t.Helper()
	request := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", method, target, len(posted))
	sent := make(chan struct{})
	go func() {
		_, _ = p.conn.Write(append(request, posted...))
		close(sent)
	}()
	response, err := http.ReadResponse(p.reader, nil)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, target, err)
	}
	if body, err = io.ReadAll(response.Body); err != nil {
		p.t.Fatalf("%s %s: %v", method, target, err)
	}
	if response.StatusCode == 200 {
		<-sent
	}
	return response.StatusCode, body
}
