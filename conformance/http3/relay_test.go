package http3

import (
	"bytes"
	"net"
	"net/http"
	"sync"
	"testing"
)

// RFC 9000 section 9.3: a NAT on the way may give a client another address, of which the client knows nothing.
func TestAddressChangesOnTheWay(t *testing.T) {
	peer := start(t, alive(echo))
	relay := startRelay(t, peer.address)
	client := relay.of(peer).dial(t)
	client.goesOn(t)
	for change := range uint64(8) {
		relay.move()
		body := noise(change, 100_000)
		client.ask(t, request(t, http.MethodPost, "/", bytes.NewReader(body)), http.StatusOK, body)
	}
	client.goesOn(t)
}

// A relay passes datagrams between one client and a peer, as a NAT does.
type relay struct {
	t    *testing.T
	peer *net.UDPAddr
	// near is what the client sends to.
	near *net.UDPConn

	lock   sync.Mutex
	client *net.UDPAddr
	// far is what the peer sees as the client.
	far *net.UDPConn
	// sent is what the client has sent.
	sent [][]byte
	// holds says that what the peer sends is held back, in held.
	holds bool
	held  [][]byte
}

func startRelay(t *testing.T, peer *net.UDPAddr) *relay {
	t.Helper()
	near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	relay := &relay{t: t, peer: peer, near: near}
	relay.move()
	go relay.out()
	t.Cleanup(func() {
		near.Close()
		relay.lock.Lock()
		defer relay.lock.Unlock()
		relay.far.Close()
	})
	return relay
}

// of is the peer as it is reached through the relay.
func (r *relay) of(peer *peer) *peer {
	through := *peer
	through.address = r.near.LocalAddr().(*net.UDPAddr)
	return &through
}

// move gives the client another address; what still comes to the old one is lost.
func (r *relay) move() {
	r.t.Helper()
	far, err := net.DialUDP("udp4", nil, r.peer)
	if err != nil {
		r.t.Fatal(err)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.far != nil {
		r.far.Close()
	}
	r.far = far
	go r.back(far)
}

// out passes on what the client sends, until near closes.
func (r *relay) out() {
	datagram := make([]byte, 1<<16)
	for {
		n, client, err := r.near.ReadFromUDP(datagram)
		if err != nil {
			return
		}
		r.lock.Lock()
		r.client = client
		r.sent = append(r.sent, bytes.Clone(datagram[:n]))
		r.far.Write(datagram[:n])
		r.lock.Unlock()
	}
}

// back passes on what the peer sends, until far closes.
func (r *relay) back(far *net.UDPConn) {
	datagram := make([]byte, 1<<16)
	for {
		n, err := far.Read(datagram)
		if err != nil {
			return
		}
		r.lock.Lock()
		if r.holds {
			r.held = append(r.held, bytes.Clone(datagram[:n]))
		} else {
			r.near.WriteToUDP(datagram[:n], r.client)
		}
		r.lock.Unlock()
	}
}

// hold keeps back what the peer sends, until release.
func (r *relay) hold() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.holds = true
}

// release passes on what was held, and returns what the client has sent until now.
func (r *relay) release() [][]byte {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.holds = false
	for _, datagram := range r.held {
		r.near.WriteToUDP(datagram, r.client)
	}
	r.held = nil
	return r.sent
}
