package http3

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Whoever sends under the address of a client, and receives nothing, leaves it half of the connections that it may have. The client has to
// validate its address for those, and is not refused.
func TestMadeUpAddressesDoNotUseUpAClientsConnections(t *testing.T) {
	if judgesItself() {
		t.Skip("quic-go's server has no limit for a client")
	}
	peer := startWith(t, "max_connections_per_client: 4", alive(http.NotFound))
	for range 8 {
		peer.dialDeaf(t)
	}
	for range 2 {
		retries := &retries{}
		config := clientConfig()
		config.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return retries }
		speak(peer.dialQUIC(t, peer.tls(), config)).goesOn(t)
		if got := retries.count.Load(); got != 1 {
			t.Errorf("%d Retry packets, want one", got)
		}
	}
	_, err := socket(t).Dial(patiently(t), peer.address, peer.tls(), clientConfig())
	if err == nil {
		t.Error("there is no limit")
	}
}

// dialDeaf begins a handshake and hears nothing of the responses, the first of which it waits for.
func (p *peer) dialDeaf(t *testing.T) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	deaf := &deafConn{conn, make(chan struct{}, 1)}
	transport := &quic.Transport{Conn: deaf}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		transport.Dial(ctx, p.address, p.tls(), clientConfig())
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		transport.Close()
		conn.Close()
	})
	wait(t, deaf.heard, "a response to an Initial packet")
}

// A deafConn only notes that something has come.
type deafConn struct {
	net.PacketConn
	heard chan struct{}
}

func (c *deafConn) ReadFrom(into []byte) (int, net.Addr, error) {
	for {
		if _, _, err := c.PacketConn.ReadFrom(into); err != nil {
			return 0, nil, err
		}
		select {
		case c.heard <- struct{}{}:
		default:
		}
	}
}
