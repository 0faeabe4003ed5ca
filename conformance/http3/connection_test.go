package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// RFC 9000 section 9: a connection outlives its client's address.
func TestAddressChanges(t *testing.T) {
	steps := make(chan struct{})
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			echo(w, r)
			return
		}
		for piece := range uint64(3) {
			w.Write(noise(piece, 50_000))
			w.(http.Flusher).Flush()
			select {
			case <-steps:
			case <-r.Context().Done():
				return
			}
		}
	})
	client := peer.dial(t)
	response, err := client.RoundTrip(request(t, http.MethodGet, "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 50_000)
	read := func(seed uint64) {
		t.Helper()
		if _, err := io.ReadFull(response.Body, piece); err != nil {
			t.Fatal(err)
		}
		if err := same(piece, noise(seed, len(piece))); err != nil {
			t.Fatal(err)
		}
	}
	read(0)
	for change := range uint64(2) {
		socket := socket(t)
		path, err := client.conn.AddPath(socket)
		if err != nil {
			t.Fatal(err)
		}
		if err := path.Probe(patiently(t)); err != nil {
			t.Fatalf("change %d: the new address is not validated: %v", change+1, err)
		}
		if err := path.Switch(); err != nil {
			t.Fatal(err)
		}
		body := noise(10+change, 200_000)
		client.ask(t, request(t, http.MethodPost, "/", bytes.NewReader(body)), http.StatusOK, body)
		if got := client.LocalAddr().String(); got != socket.Conn.LocalAddr().String() {
			t.Errorf("change %d: the connection is still at %s", change+1, got)
		}
		steps <- struct{}{}
		read(change + 1)
	}
	close(steps)
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %d bytes, %v", len(rest), err)
	}
}

// quic-go updates its keys after the first hundred packets (RFC 9001 section 6).
func TestKeyUpdate(t *testing.T) {
	peer := start(t, echo)
	updates := &keyUpdates{seen: make(map[qlog.KeyUpdated]bool), both: make(chan struct{})}
	config := clientConfig()
	config.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return updates }
	client := speak(peer.dialQUIC(t, peer.tls(), config))
	body := noise(8, 1<<20)
	client.ask(t, request(t, http.MethodPost, "/", bytes.NewReader(body)), http.StatusOK, body)
	wait(t, updates.both, "both sides use the next keys")
	client.ask(t, request(t, http.MethodPost, "/", bytes.NewReader(body)), http.StatusOK, body)
}

// keyUpdates closes both when the keys of both sides were updated at the client's wish.
type keyUpdates struct {
	lock sync.Mutex
	seen map[qlog.KeyUpdated]bool
	both chan struct{}
}

func (u *keyUpdates) AddProducer() qlogwriter.Recorder { return u }
func (u *keyUpdates) SupportsSchemas(string) bool      { return true }
func (u *keyUpdates) Close() error                     { return nil }

func (u *keyUpdates) RecordEvent(event qlogwriter.Event) {
	update, ok := event.(qlog.KeyUpdated)
	if !ok || update.Trigger != qlog.KeyUpdateLocal {
		return
	}
	u.lock.Lock()
	defer u.lock.Unlock()
	update.KeyPhase = 0
	if u.seen[update] = true; len(u.seen) == 2 {
		select {
		case <-u.both:
		default:
			close(u.both)
		}
	}
}

// RFC 9000 section 6 and 17.2.1.
func TestVersionNegotiation(t *testing.T) {
	peer := start(t, alive(http.NotFound))
	conn, err := net.DialUDP("udp4", nil, peer.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	const unknown = 0x5a5a5a5a
	long := func(destination, source string, length int) []byte {
		packet := binary.BigEndian.AppendUint32([]byte{0xc3}, unknown)
		packet = append(append(packet, byte(len(destination))), destination...)
		packet = append(append(packet, byte(len(source))), source...)
		return append(packet, noise(0, length-len(packet))...)
	}
	// RFC 9000 section 5.2.2: the small one is dropped. Had it an answer, that would come first.
	conn.Write(long("too-small", "dropped", 1199))
	conn.Write(long("to-server", "of-us", 1200))
	packet := make([]byte, 2048)
	n, err := conn.Read(packet)
	if err != nil {
		t.Fatal(err)
	}
	packet = packet[:n]
	want := append([]byte{0, 0, 0, 0, 5}, "of-us\x09to-server"...)
	if packet[0]&0x80 == 0 || !bytes.HasPrefix(packet[1:], want) {
		t.Fatalf("not a Version Negotiation packet for ours: %x", packet)
	}
	var versions []uint32
	for rest := packet[1+len(want):]; len(rest) > 0; rest = rest[4:] {
		if len(rest) < 4 {
			t.Fatalf("half a version: %x", rest)
		}
		versions = append(versions, binary.BigEndian.Uint32(rest))
	}
	if !slices.Contains(versions, 1) || slices.Contains(versions, unknown) {
		t.Errorf("the versions %x", versions)
	}
	peer.dial(t).goesOn(t)
}

// RFC 9114 section 5.2: what is under way ends well, and nothing new begins.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		w.Write(noise(0, 10_000))
		w.(http.Flusher).Flush()
		select {
		case <-release:
			w.Write(noise(1, 1<<20))
		case <-r.Context().Done():
		}
	}))
	client := peer.dial(t)
	response, err := client.RoundTrip(request(t, http.MethodGet, "/long", nil))
	if err != nil {
		t.Fatal(err)
	}
	client.goesOn(t)
	peer.drain()
	for refused := patiently(t); err == nil; {
		if refused.Err() != nil {
			t.Fatalf("requests are served %v after the drain began", patience)
		}
		var got answer
		if got, err = client.send(request(t, http.MethodGet, "/alive", nil)); err == nil && string(got.body) != "alive" {
			t.Fatalf("a request meanwhile: %d %q", got.status, got.body)
		}
	}
	// quic-go itself refuses what comes after GOAWAY.
	code, reset := streamCode(err)
	if rejected := reset && code == http3.ErrCodeRequestRejected; !rejected && !strings.Contains(err.Error(), "in graceful shutdown") {
		t.Errorf("a request is refused with %v", err)
	}
	close(release)
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("the request under way: %v", err)
	}
	if err := same(body, append(noise(0, 10_000), noise(1, 1<<20)...)); err != nil {
		t.Errorf("the request under way: %v", err)
	}
	if err := peer.ended(); err != nil {
		t.Errorf("the peer: %v", err)
	}
}

// tickets keeps sessions and says when there is one.
type tickets struct {
	tls.ClientSessionCache
	one  sync.Once
	came chan struct{}
}

func (k *tickets) Put(name string, session *tls.ClientSessionState) {
	k.ClientSessionCache.Put(name, session)
	if session != nil {
		k.one.Do(func() { close(k.came) })
	}
}

// visited has been at the peer once, and returns what leads to a resumed session.
func visited(t *testing.T, peer *peer) *tls.Config {
	t.Helper()
	return visitedWith(t, peer, clientConfig())
}

func visitedWith(t *testing.T, peer *peer, quic *quic.Config) *tls.Config {
	t.Helper()
	tickets := &tickets{ClientSessionCache: tls.NewLRUClientSessionCache(4), came: make(chan struct{})}
	config := peer.tls()
	config.ClientSessionCache = tickets
	client := speak(peer.dialQUIC(t, config, quic))
	client.goesOn(t)
	if client.conn.ConnectionState().TLS.DidResume {
		t.Error("the first session is resumed")
	}
	wait(t, tickets.came, "a session ticket")
	client.CloseWithError(0x100, "")
	return config
}

func TestResumption(t *testing.T) {
	peer := start(t, alive(http.NotFound))
	client := speak(peer.dialQUIC(t, visited(t, peer), clientConfig()))
	client.goesOn(t)
	if !client.conn.ConnectionState().TLS.DidResume {
		t.Error("the session is not resumed")
	}
}

// What is sent with 0-RTT can be replayed (RFC 8470): it is refused, and the request is served after the handshake.
func TestEarlyDataIsRefused(t *testing.T) {
	peer := start(t, alive(http.NotFound))
	config := visited(t, peer)
	conn, err := socket(t).DialEarly(patiently(t), peer.address, config, clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	client := speak(conn)
	got, err := client.send(request(t, http3.MethodGet0RTT, "/alive", nil))
	if errors.Is(err, quic.Err0RTTRejected) {
		if conn, err = conn.NextConnection(patiently(t)); err != nil {
			t.Fatal(err)
		}
		client = speak(conn)
		got, err = client.send(request(t, http.MethodGet, "/alive", nil))
	}
	defer conn.CloseWithError(0x100, "")
	if err != nil || got.status != http.StatusOK || string(got.body) != "alive" {
		t.Errorf("%d %q, %v", got.status, got.body, err)
	}
	if conn.ConnectionState().Used0RTT {
		t.Error("0-RTT was used")
	}
}
