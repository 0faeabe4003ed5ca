package http3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const narrow = `
workers: { threads: 1 }
listeners: [{ address: "%[1]s", protocols: [h3, h1], tls: { certificates: { cert: site.pem, key: site.key } } }]
admin: off
limits: { stream_window: %[3]d }
routes: [{ prefix: /, upstream: site }]
upstreams: { site: { endpoints: "%[2]s", max_connections: 1, queue: { timeout: 60s } } }
`

// A body that nobody takes fills the windows, and nothing else: also where it comes in short frames, many to a packet.
func TestShortFramesFillNoMoreThanTheWindows(t *testing.T) {
	if judgesItself() {
		t.Skip("it is about the gateway's memory")
	}
	arrived, goOn := make(chan struct{}), make(chan struct{})
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			close(arrived)
			<-goOn
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(body))
	}))
	certificate, folder := makeCertificate(t), t.TempDir()
	write(t, filepath.Join(folder, "site.pem"), certificate.cert)
	write(t, filepath.Join(folder, "site.key"), certificate.key)
	peer := &peer{address: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: freePort(t)}, cert: certificate.cert}
	const window = 64 << 10
	peer.runTitanWith(t, folder, fmt.Sprintf(narrow, peer.address, upstream, window))
	raw := peer.dialRaw(t)
	raw.greets()
	first := raw.asks(headers(get("/first")...))
	wait(t, arrived, "the first request")

	// It waits for the connection that the first one has, and its body with it.
	body := bytes.Repeat(frame(frameData, bytes.Repeat([]byte{'x'}, 64)...), 1<<16)
	second := raw.begins(headers(post("/second")...))
	second.SetWriteDeadline(time.Now().Add(time.Second))
	taken, err := second.Write(body)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d of %d bytes are taken: %v", taken, len(body), err)
	}
	// A window of data in frames waits in the gateway, and as much again in its transport; packets at hand, and one in the client, besides.
	if most := window*66/64 + window + 4*1500; taken > most {
		t.Errorf("%d bytes are taken of a body that nobody wants, more than %d", taken, most)
	}
	close(goOn)
	if got := read(first); got.status != http.StatusOK {
		t.Errorf("the first request: %d, %v", got.status, got.err)
	}
}
