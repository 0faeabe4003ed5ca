package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

// start runs an endpoint until the test ends; its address, the door to its faults, and where it reports to.
func start(t *testing.T, version string) (string, *door, net.PacketConn) {
	t.Helper()
	reports, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.Dial("udp", reports.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.fail("none")
		_ = d.Close()
		_ = reports.Close()
	})
	go func() { _ = serve(version, &service{door: d, reports: to, body: bodyOf("2")}) }()
	return d.Addr().String(), d, reports
}

// client speaks that version, on a connection for each request.
func client(version string) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableKeepAlives: version == "h1"}
	transport.Protocols.SetHTTP1(version == "h1")
	transport.Protocols.SetUnencryptedHTTP2(version == "h2")
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func fetch(version, url string) (status int, body []byte, err error) {
	response, err := client(version).Post(url, "text/plain", bytes.NewReader(make([]byte, 1000)))
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

func TestFaultsOfResponses(t *testing.T) {
	for _, version := range []string{"h1", "h2"} {
		address, door, _ := start(t, version)
		for _, row := range []struct {
			fault string
			seen  func(status int, body []byte, err error) bool
		}{
			{"none", func(status int, body []byte, err error) bool {
				return err == nil && status == 200 && len(body) == bodySize && body[0] == '2'
			}},
			{"error", func(status int, _ []byte, err error) bool { return err == nil && status == 500 }},
			{"reset", func(status int, body []byte, err error) bool {
				return err != nil && status == 200 && len(body) == bodySize/2
			}},
			{"truncate", func(status int, body []byte, err error) bool {
				return err != nil && status == 200 && len(body) == bodySize/2
			}},
			{"garbage", func(status int, _ []byte, err error) bool { return err != nil && status == 0 }},
		} {
			if err := door.fail(row.fault); err != nil {
				t.Fatal(err)
			}
			status, body, err := fetch(version, "http://"+address+"/")
			if !row.seen(status, body, err) {
				t.Errorf("%s, %s: status %d, %d bytes, %v", version, row.fault, status, len(body), err)
			}
			if status, _, err := fetch(version, "http://"+address+health); status != 200 {
				t.Errorf("%s, %s: the health check got %d, %v", version, row.fault, status, err)
			}
		}
	}
}

func TestResetIsOne(t *testing.T) {
	address, door, _ := start(t, "h1")
	if err := door.fail("reset"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetch("h1", "http://"+address+"/"); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
}

func TestAlternatesBetweenGoodAndBad(t *testing.T) {
	address, door, _ := start(t, "h1")
	if err := door.fail("alternate"); err != nil {
		t.Fatal(err)
	}
	got := make(map[int]int)
	for range 10 {
		status, _, _ := fetch("h1", "http://"+address+"/")
		got[status]++
	}
	if got[200] != 5 || got[500] != 5 {
		t.Error(got)
	}
}

func TestBlackholeReadsNothingUntilItIsOver(t *testing.T) {
	address, door, _ := start(t, "h1")
	if err := door.fail("blackhole"); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if err := door.fail("none"); err != nil {
		t.Fatal(err)
	}
	if status, _, err := fetch("h1", "http://"+address+"/"); status != 200 {
		t.Error(status, err)
	}
}

func TestFullQueueLetsNobodyIn(t *testing.T) {
	address, door, _ := start(t, "h1")
	if err := door.fail("backlog"); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond); err == nil {
		_ = conn.Close()
		t.Error("somebody got in")
	}
	if err := door.fail("none"); err != nil {
		t.Fatal(err)
	}
	if status, _, err := fetch("h1", "http://"+address+"/"); status != 200 {
		t.Error(status, err)
	}
}

func TestRequestsAreReportedAndHealthChecksAreNot(t *testing.T) {
	address, _, reports := start(t, "h1")
	for _, path := range []string{health, "/", health, "/"} {
		if status, _, err := fetch("h1", "http://"+address+path); status != 200 {
			t.Fatal(status, err)
		}
	}
	_ = reports.SetReadDeadline(time.Now().Add(20 * time.Second))
	for range 2 {
		if _, _, err := reports.ReadFrom(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
	}
	_ = reports.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, _, err := reports.ReadFrom(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a health check was reported")
	}
}

func TestUnknownFaultsAreErrors(t *testing.T) {
	_, door, _ := start(t, "h1")
	if err := door.fail("tired"); err == nil {
		t.Error("there is no such fault")
	}
}
