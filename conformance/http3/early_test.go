package http3

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// early runs a peer that takes early data, in front of a handler that is told of each request that is not goesOn's.
func early(t *testing.T, seen chan<- string) *peer {
	t.Helper()
	if judgesItself() {
		t.Skip("quic-go's server leaves it to the handler")
	}
	return startWith(t, "early_data: true", alive(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen <- fmt.Sprintf("%s %s %q %d", r.Method, r.URL.Path, r.Header.Values("Early-Data"), len(body))
		if r.URL.Path == "/late" && r.Header.Get("Early-Data") != "" {
			w.WriteHeader(http.StatusTooEarly)
			return
		}
		io.WriteString(w, r.URL.Path)
	}))
}

// A returning client was at the peer before.
type returning struct {
	tls  *tls.Config
	quic *quic.Config
}

// returns has been at the peer once. What it sends early is served early with the token that it got.
func returns(t *testing.T, peer *peer) returning {
	t.Helper()
	tokens := &tokens{TokenStore: quic.NewLRUTokenStore(1, 8), came: make(chan struct{}, 8)}
	config := clientConfig()
	config.TokenStore = tokens
	tls := visitedWith(t, peer, config)
	wait(t, tokens.came, "a token")
	return returning{tls, config}
}

func (r returning) dial(t *testing.T, peer *peer) *quic.Conn {
	t.Helper()
	conn, err := socket(t).DialEarly(patiently(t), peer.address, r.tls, r.quic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseWithError(0x100, "") })
	return conn
}

// usedEarlyData waits for the end of the handshake.
func usedEarlyData(t *testing.T, conn *quic.Conn) {
	t.Helper()
	wait(t, conn.HandshakeComplete(), "the end of the handshake")
	if !conn.ConnectionState().Used0RTT {
		t.Error("0-RTT was not used")
	}
}

// next wants the upstream to see this request next.
func next(t *testing.T, seen <-chan string, want string) {
	t.Helper()
	select {
	case got := <-seen:
		if got != want {
			t.Errorf("the upstream sees %s, want %s", got, want)
		}
	case <-patiently(t).Done():
		t.Fatalf("the upstream does not see %s", want)
	}
}

// RFC 8470 section 4: what does harm when it comes twice waits for the end of the handshake. Section 5.1: the upstream is told of all else.
func TestEarlyRequests(t *testing.T) {
	seen := make(chan string, 8)
	peer := early(t, seen)
	visitor := returns(t, peer)
	relay := startRelay(t, peer.address)
	relay.hold()
	client := &raw{t, visitor.dial(t, relay.of(peer)), nil}
	client.greets()
	posted := client.asks(headers(post("/post")...))
	with := client.asks(headers(get("/with")...), data("body"))
	first := client.asks(headers(get("/first")...))
	next(t, seen, `GET /first ["1"] 0`)
	second := client.asks(headers(get("/second")...))
	next(t, seen, `GET /second ["1"] 0`)
	relay.release()
	usedEarlyData(t, client.conn)
	waited := map[string]bool{<-seen: true, <-seen: true}
	for _, want := range []string{"POST /post [] 0", "GET /with [] 4"} {
		if !waited[want] {
			t.Errorf("the upstream sees %v, want %s", waited, want)
		}
	}
	client.served(posted, "/post")
	client.served(with, "/with")
	client.served(first, "/first")
	client.served(second, "/second")
	client.served(client.asks(headers(get("/third")...)), "/third")
	next(t, seen, "GET /third [] 0")
}

// RFC 8470 section 5.2: a client learns that it has to send a request again after the handshake.
func TestTooEarly(t *testing.T) {
	seen := make(chan string, 2)
	peer := early(t, seen)
	visitor := returns(t, peer)
	relay := startRelay(t, peer.address)
	relay.hold()
	conn := visitor.dial(t, relay.of(peer))
	client := speak(conn)
	got := make(chan answer, 1)
	go func() {
		answer, err := client.send(request(t, http3.MethodGet0RTT, "/late", nil))
		if err != nil {
			t.Error(err)
		}
		got <- answer
	}()
	next(t, seen, `GET /late ["1"] 0`)
	relay.release()
	if got := <-got; got.status != http.StatusTooEarly {
		t.Errorf("%d %q, want %d", got.status, got.body, http.StatusTooEarly)
	}
	usedEarlyData(t, conn)
	client.ask(t, request(t, http.MethodGet, "/late", nil), http.StatusOK, []byte("/late"))
	next(t, seen, "GET /late [] 0")
}

// RFC 8446 section 8: early data is taken once, whoever sends it again.
func TestReplay(t *testing.T) {
	seen := make(chan string, 8)
	peer := early(t, seen)
	visitor := returns(t, peer)
	relay := startRelay(t, peer.address)
	relay.hold()
	client := &raw{t, visitor.dial(t, relay.of(peer)), nil}
	client.greets()
	once := client.asks(headers(get("/once")...))
	next(t, seen, `GET /once ["1"] 0`)
	flight := relay.release()
	client.served(once, "/once")
	usedEarlyData(t, client.conn)
	client.conn.CloseWithError(0x100, "")

	attacker, err := net.DialUDP("udp4", nil, peer.address)
	if err != nil {
		t.Fatal(err)
	}
	defer attacker.Close()
	answer := make([]byte, 1<<16)
	// The first copies may still come to the connection that closes.
	for answered := patiently(t); ; {
		for _, datagram := range flight {
			attacker.Write(datagram)
		}
		attacker.SetReadDeadline(time.Now().Add(patience / 100))
		if n, err := attacker.Read(answer); err == nil && n > 0 && answer[0]&0xf0 == 0xc0 {
			break
		}
		if answered.Err() != nil {
			t.Fatal("the replay begins no connection")
		}
	}
	for range 3 {
		for _, datagram := range flight {
			attacker.Write(datagram)
		}
		peer.dial(t).goesOn(t)
	}
	select {
	case again := <-seen:
		t.Errorf("the upstream sees %s again", again)
	default:
	}
}

// RFC 8446 section 8.1: a session is good for early data once. A replay may come with a token of its own, and so from an address that is
// valid.
func TestSessionsAreResumedOnce(t *testing.T) {
	peer := early(t, make(chan string, 8))
	visitor := returning{visited(t, peer), clientConfig()}
	visitor.tls.ClientSessionCache = &sameSession{ClientSessionCache: visitor.tls.ClientSessionCache}
	first := visitor.dial(t, peer)
	usedEarlyData(t, first)
	first.CloseWithError(0x100, "")
	again := visitor.dial(t, peer)
	wait(t, again.HandshakeComplete(), "the end of the handshake")
	if again.ConnectionState().Used0RTT {
		t.Error("0-RTT was used again")
	}
}

// sameSession is for a client that has one session only, and keeps it.
type sameSession struct {
	tls.ClientSessionCache
	session *tls.ClientSessionState
}

func (s *sameSession) Get(key string) (*tls.ClientSessionState, bool) {
	if s.session == nil {
		s.session, _ = s.ClientSessionCache.Get(key)
	}
	return s.session, s.session != nil
}

func (s *sameSession) Put(string, *tls.ClientSessionState) {}

// RFC 9000 section 8.1: the address of a client without a token may be made up, and everything goes by addresses that are not.
func TestEarlyRequestsWithoutToken(t *testing.T) {
	seen := make(chan string, 8)
	peer := early(t, seen)
	relay := startRelay(t, peer.address)
	visitor := returning{visited(t, peer), clientConfig()}
	relay.hold()
	client := &raw{t, visitor.dial(t, relay.of(peer)), nil}
	client.greets()
	stream := client.asks(headers(get("/early")...))
	// What came to the peer later is served earlier.
	peer.dial(t).goesOn(t)
	relay.release()
	client.served(stream, "/early")
	usedEarlyData(t, client.conn)
	next(t, seen, "GET /early [] 0")
}
