package http3

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// half is how much of a body has passed when the upgrade begins.
const half = 4 << 20

// What is under way at an upgrade ends with the process that it began with, although what clients send comes to the next one.
func TestUpgrade(t *testing.T) {
	release, halfway := make(chan struct{}), make(chan struct{})
	site := startSite(t, "workers: 4", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			first := make([]byte, half)
			io.ReadFull(r.Body, first)
			close(halfway)
			rest, _ := io.ReadAll(r.Body)
			w.Write(append(first, rest...))
			return
		}
		w.Write(noise(0, half))
		w.(http.Flusher).Flush()
		select {
		case <-release:
			w.Write(noise(1, half))
		case <-r.Context().Done():
		}
	})
	whole := append(noise(0, half), noise(1, half)...)

	downloads := site.dial(t)
	download, err := downloads.RoundTrip(request(t, http.MethodGet, "/download", nil))
	if err != nil {
		t.Fatal(err)
	}
	downloaded := make([]byte, half)
	if _, err := io.ReadFull(download.Body, downloaded); err != nil {
		t.Fatal(err)
	}
	uploads := site.dial(t)
	body, upload := io.Pipe()
	uploaded := make(chan error, 1)
	go func() {
		got, err := uploads.send(request(t, http.MethodPost, "/upload", body))
		if err == nil {
			err = same(got.body, whole)
		}
		uploaded <- err
	}()
	upload.Write(whole[:half])
	wait(t, halfway, "half of the upload at the upstream")
	site.isServedBy(t, "old")

	site.upgrade(t)
	site.isServedBy(t, "new")
	close(release)
	rest, err := io.ReadAll(download.Body)
	if err != nil {
		t.Fatalf("the download after %d bytes: %v", len(downloaded)+len(rest), err)
	}
	if err := same(append(downloaded, rest...), whole); err != nil {
		t.Errorf("the download: %v", err)
	}
	upload.Write(whole[half:])
	upload.Close()
	if err := <-uploaded; err != nil {
		t.Errorf("the upload: %v", err)
	}
	if site.forwarded(t) == 0 {
		t.Error("no datagram was handed on, says the gateway")
	}
	site.isServedBy(t, "new")

	wait(t, site.oldEnded, "the end of the old process")
	// The first one shows that nobody is there any more.
	site.strays(t)
	before := site.forwarded(t)
	site.strays(t)
	site.isServedBy(t, "new")
	if after := site.forwarded(t); after != before {
		t.Errorf("%d datagrams were handed to a process that has ended", after-before)
	}
}

// A client whose handshake is under way at an upgrade, or that was asked to validate its address, goes on with the old process.
func TestUpgradeAmidAHandshake(t *testing.T) {
	for _, row := range []struct{ name, workers, listener string }{
		{"after the first answer", "workers: 4", ""},
		// The one worker has something else to do as well, and stays for that. The next process would take the client for a new one.
		{"after a Retry packet", "workers: 1", "retry_above: 0"},
	} {
		t.Run(row.name, func(t *testing.T) {
			release := make(chan struct{})
			site := startSite(t, row.workers, func(w http.ResponseWriter, r *http.Request) {
				w.(http.Flusher).Flush()
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}, row.listener)
			busy, err := site.dial(t).RoundTrip(request(t, http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			gate := startGate(t, site.address)
			through := *site.peer
			through.address = gate.near.LocalAddr().(*net.UDPAddr)
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := socket(t).Dial(patiently(t), through.address, through.tls(), clientConfig())
				if err != nil {
					t.Errorf("the handshake: %v", err)
					return
				}
				defer conn.CloseWithError(0x100, "")
				got, err := speak(conn).send(request(t, http.MethodGet, "/generation", nil))
				if err != nil || string(got.body) != "old" {
					t.Errorf("%q, %v", got.body, err)
				}
			}()
			wait(t, gate.answered, "the first answer")
			site.upgrade(t)
			close(gate.opened)
			wait(t, done, "the response")
			close(release)
			if _, err := io.ReadAll(busy.Body); err != nil {
				t.Error(err)
			}
			wait(t, site.oldEnded, "the end of the old process")
		})
	}
}

// A site is a gateway that another process takes over from.
type site struct {
	*peer
	admin string
	// write makes the file that the next process reads.
	write func(generation string)
	old   *os.Process
	// oldEnded closes when the first process has ended.
	oldEnded chan struct{}
	// successor is what the process id of the next process is sent to, once that serves and the first one drains.
	successor chan int
}

// siteConfiguration has a route that tells which process it is.
const siteConfiguration = `
%[1]s
listeners:
  - address: "%[2]s"
    protocols: [h3, h1]
    tls: { certificates: { cert: site.pem, key: site.key } }
    %[3]s
admin: { address: "%[4]s", socket: off }
routes:
  - { path: /generation, respond: { body: %[5]s } }
  - { prefix: /, upstream: site }
upstreams: { site: "%[6]s" }
`

var serves = regexp.MustCompile(`upgrade process=(\d+)`)

// startSite runs one with these settings of the listener, which the next process does not have.
func startSite(t *testing.T, workers string, handler http.HandlerFunc, listener ...string) *site {
	t.Helper()
	if judgesItself() {
		t.Skip("quic-go hands over to nobody")
	}
	certificate, folder := makeCertificate(t), t.TempDir()
	address := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: freePort(t)}
	admin, upstream := fmt.Sprintf("127.0.0.1:%d", freePort(t)), startUpstream(t, handler)
	write(t, filepath.Join(folder, "site.pem"), certificate.cert)
	write(t, filepath.Join(folder, "site.key"), certificate.key)
	site := &site{
		peer:      &peer{address: address, cert: certificate.cert},
		admin:     admin,
		oldEnded:  make(chan struct{}),
		successor: make(chan int, 1),
	}
	file := filepath.Join(folder, "titan.yaml")
	site.write = func(generation string) {
		settings := ""
		if generation == "old" {
			settings = strings.Join(listener, "")
		}
		write(t, file, fmt.Appendf(nil, siteConfiguration, workers, address, settings, admin, generation, upstream))
	}
	site.write("old")

	// A pipe of its own: the process that takes over writes to it, too.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.Command(os.Getenv("TITAN_PROGRAM"), "--config", file)
	process.Dir, process.Stdout, process.Stderr = folder, writer, writer
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	site.old = process.Process
	go func() { process.Wait(); close(site.oldEnded) }()
	listens, allEnded := make(chan struct{}), make(chan struct{})
	var told bytes.Buffer
	successor := 0
	go func() {
		defer close(allEnded)
		hears := false
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			fmt.Fprintln(&told, lines.Text())
			if strings.Contains(lines.Text(), "listening on ") && !hears {
				hears = true
				close(listens)
			}
			if found := serves.FindStringSubmatch(lines.Text()); found != nil {
				successor, _ = strconv.Atoi(found[1])
			}
			if strings.Contains(lines.Text(), "draining;") && successor != 0 {
				site.successor <- successor
			}
		}
	}()
	t.Cleanup(func() {
		process.Process.Kill()
		<-site.oldEnded
		select {
		case successor := <-site.successor:
			syscall.Kill(successor, syscall.SIGKILL)
		default:
		}
		<-allEnded
		reader.Close()
		if t.Failed() {
			t.Logf("the gateway said:\n%s", &told)
		}
	})
	wait(t, listens, "the gateway listens")
	return site
}

// upgrade has another process take over, and returns when the old one drains.
func (s *site) upgrade(t *testing.T) {
	t.Helper()
	s.write("new")
	s.old.Signal(syscall.SIGUSR2)
	select {
	case successor := <-s.successor:
		// For the one who ends it.
		s.successor <- successor
	case <-s.oldEnded:
		t.Fatal("the old process has ended at once")
	case <-time.After(patience):
		t.Fatal("no other process takes over")
	}
}

// isServedBy opens connections, which all have to come to that process.
func (s *site) isServedBy(t *testing.T, generation string) {
	t.Helper()
	for range 8 {
		client := s.dial(t)
		client.ask(t, request(t, http.MethodGet, "/generation", nil), http.StatusOK, []byte(generation))
		client.CloseWithError(0x100, "")
	}
}

// forwarded is how many datagrams the process that serves has handed to the one before it.
func (s *site) forwarded(t *testing.T) int {
	t.Helper()
	response, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	sum, families := 0, 0
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		value, found := strings.CutPrefix(lines.Text(), "titan_quic_datagrams_forwarded_total{")
		if !found {
			continue
		}
		count, err := strconv.Atoi(value[strings.LastIndexByte(value, ' ')+1:])
		if err != nil {
			t.Fatal(err)
		}
		sum, families = sum+count, families+1
	}
	if families == 0 {
		t.Fatal("the gateway does not say how many datagrams it has handed on")
	}
	return sum
}

// strays sends datagrams of no connection, and returns when the gateway has counted them.
func (s *site) strays(t *testing.T) {
	t.Helper()
	conn, err := net.DialUDP("udp4", nil, s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	for range 3 {
		conn.Write(append([]byte{0x40}, noise(uint64(time.Now().UnixNano()), 100)...))
	}
	// They are read in the order in which they come, and counted before it is read again.
	for range 2 {
		probe := append([]byte{0xc3, 0x5a, 0x5a, 0x5a, 0x5a, 8}, "to-there\x08from-us."...)
		conn.Write(append(probe, make([]byte, 1200-len(probe))...))
		if _, err := conn.Read(make([]byte, 2048)); err != nil {
			t.Fatal(err)
		}
	}
}

// A gate passes datagrams between one client and a peer. It holds back what the client sends once the peer has answered, until it is
// opened.
type gate struct {
	// near is what the client sends to, and far what the peer sees as the client.
	near, far *net.UDPConn
	answered  chan struct{}
	opened    chan struct{}
}

func startGate(t *testing.T, peer *net.UDPAddr) *gate {
	t.Helper()
	near, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	far, err := net.DialUDP("udp4", nil, peer)
	if err != nil {
		t.Fatal(err)
	}
	gate := &gate{near, far, make(chan struct{}), make(chan struct{})}
	clients := make(chan *net.UDPAddr, 1)
	go gate.out(clients)
	go gate.back(clients)
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	return gate
}

func (g *gate) out(clients chan<- *net.UDPAddr) {
	datagram := make([]byte, 1<<16)
	for first := true; ; first = false {
		n, client, err := g.near.ReadFromUDP(datagram)
		if err != nil {
			return
		}
		if first {
			clients <- client
		}
		select {
		case <-g.answered:
			<-g.opened
		default:
		}
		g.far.Write(datagram[:n])
	}
}

func (g *gate) back(clients <-chan *net.UDPAddr) {
	client := <-clients
	datagram := make([]byte, 1<<16)
	for first := true; ; first = false {
		n, err := g.far.Read(datagram)
		if err != nil {
			return
		}
		if first {
			close(g.answered)
		}
		g.near.WriteToUDP(datagram[:n], client)
	}
}
