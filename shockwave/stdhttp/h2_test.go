package stdhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"titan.test/shockwave"
)

func TestH2BesideHTTP1OnOnePort(t *testing.T) {
	server := NewTLSServer(func(c *shockwave.Ctx) {
		body, _ := c.ReadBody(-1)
		c.Send("text/plain", body)
	})
	defer server.Close()
	for h2, want := range map[bool]string{false: "HTTP/1.1 x", true: "HTTP/2.0 x"} {
		client := speaking(server, h2)
		for range 2 {
			response, body := fetch(t, client, request(t, "POST", server.URL, strings.NewReader("x")))
			if got := response.Proto + " " + body; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		client.CloseIdleConnections()
	}
}

// TestH2WithCurl asks a client that is not Go's. Without curl it is skipped, but
// not in CI.
func TestH2WithCurl(t *testing.T) {
	without := t.Skip
	if os.Getenv("CI") != "" {
		without = t.Fatal
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		without("no curl")
	}
	server := NewTLSServer(func(c *shockwave.Ctx) { c.SendString("text/plain", "hello") })
	defer server.Close()
	for flag, want := range map[string]string{"--http1.1": "hello 1.1", "--http2": "hello 2"} {
		out, err := exec.CommandContext(t.Context(), curl, "-sk", flag, "-w", " %{http_version}", server.URL).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 2 {
			without("curl has no HTTP/2")
		}
		if err != nil || string(out) != want {
			t.Errorf("%s: %q, %v", flag, out, err)
		}
	}
}

// TestShutdownLetsH2StreamsEnd shuts down while a stream runs: it ends whole, and the connection takes no other.
func TestShutdownLetsH2StreamsEnd(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	server := NewTLSServer(func(c *shockwave.Ctx) {
		started <- struct{}{}
		<-goOn
		c.SendString("text/plain", "whole")
	})
	client := speaking(server, true)
	defer client.CloseIdleConnections()
	body := make(chan string, 1)
	go func() {
		response, err := client.Get(server.URL)
		if err != nil {
			body <- err.Error()
			return
		}
		defer response.Body.Close()
		b, _ := io.ReadAll(response.Body)
		body <- string(b)
	}()
	await(t, "start", started)
	down := make(chan error, 1)
	go func() { down <- server.Server.Shutdown(context.Background()) }()
	await(t, "end of listening", server.ended)
	goOn <- struct{}{}
	if got := await(t, "answer", body); got != "whole" {
		t.Error(got)
	}
	if err := await(t, "shutdown", down); err != nil {
		t.Error(err)
	}
}

// TestShutdownEndsIdleH2 has an unused connection: Shutdown must not wait for it.
func TestShutdownEndsIdleH2(t *testing.T) {
	server := NewTLSServer(func(c *shockwave.Ctx) { c.SendString("text/plain", "x") })
	client := speaking(server, true)
	defer client.CloseIdleConnections()
	fetch(t, client, request(t, "GET", server.URL, nil))
	down := make(chan error, 1)
	go func() { down <- server.Server.Shutdown(context.Background()) }()
	if err := await(t, "shutdown", down); err != nil {
		t.Error(err)
	}
	if n := server.Server.Connections(); n != 0 {
		t.Error(n, "connections are left")
	}
}

func TestCloseCutsH2(t *testing.T) {
	cancelled := make(chan struct{})
	started := make(chan struct{})
	server := NewTLSServer(func(c *shockwave.Ctx) {
		ctx := c.Context()
		close(started)
		<-ctx.Done()
		close(cancelled)
	})
	client := speaking(server, true)
	defer client.CloseIdleConnections()
	failed := make(chan error, 1)
	go func() {
		_, err := client.Get(server.URL)
		failed <- err
	}()
	await(t, "start", started)
	server.Server.Close()
	if err := await(t, "failure", failed); err == nil {
		t.Error("a response from a closed server")
	}
	await(t, "end of the context", cancelled)
}

func TestH2KeepsWhatIsThere(t *testing.T) {
	s := &shockwave.Server{Handler: func(*shockwave.Ctx) {}}
	H2(s)
	if len(s.NextProto) != 1 || s.NextProto["h2"] == nil {
		t.Error(s.NextProto)
	}
	var _ http.Handler = ServerHandler(s)
}

// TestUnderShuttingDown tells a handler under net/http of the Shutdown of its own server.
func TestUnderShuttingDown(t *testing.T) {
	begun := make(chan struct{})
	s := &shockwave.Server{Handler: func(c *shockwave.Ctx) {
		close(begun)
		await(t, "shutdown", c.ShuttingDown())
		c.SendString("text/plain", "told")
	}}
	server := httptest.NewServer(ServerHandler(s))
	defer server.Close()
	go func() {
		<-begun
		_ = s.Shutdown(context.Background())
	}()
	if _, body := fetch(t, server.Client(), request(t, "GET", server.URL, nil)); body != "told" {
		t.Error(body)
	}
}
