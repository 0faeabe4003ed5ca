package http3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

func TestCancelledRequests(t *testing.T) {
	arrived, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/before":
			arrived <- struct{}{}
			<-r.Context().Done()
		case "/response":
			w.Write(noise(0, 10_000))
			w.(http.Flusher).Flush()
			for r.Context().Err() == nil {
				w.Write(noise(1, 10_000))
			}
		case "/request":
			arrived <- struct{}{}
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				t.Error("the upstream has a request whole that was cancelled")
			}
		}
		cancelled <- struct{}{}
	}))
	client := peer.dial(t)
	cancel := func(request *http.Request) (*http.Request, context.CancelFunc) {
		ctx, cancel := context.WithCancel(request.Context())
		return request.WithContext(ctx), cancel
	}
	t.Run("before the response", func(t *testing.T) {
		request, cancel := cancel(request(t, http.MethodGet, "/before", nil))
		go func() { <-arrived; cancel() }()
		if _, err := client.RoundTrip(request); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		wait(t, cancelled, "the upstream sees the end of the request")
		client.goesOn(t)
	})
	t.Run("while the response comes", func(t *testing.T) {
		request, cancel := cancel(request(t, http.MethodGet, "/response", nil))
		response, err := client.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		begin := make([]byte, 10_000)
		if _, err := io.ReadFull(response.Body, begin); err != nil {
			t.Fatal(err)
		}
		cancel()
		wait(t, cancelled, "the upstream sees the end of the request")
		client.goesOn(t)
	})
	t.Run("while the request is sent", func(t *testing.T) {
		body, writer := io.Pipe()
		defer writer.Close()
		request, cancel := cancel(request(t, http.MethodPost, "/request", body))
		go func() {
			writer.Write(noise(2, 100_000))
			<-arrived
			cancel()
		}()
		if _, err := client.RoundTrip(request); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		wait(t, cancelled, "the upstream sees the end of the request")
		client.goesOn(t)
	})
}

// RFC 9114 section 4.1: what is not whole may not end as if it were.
func TestBrokenOffResponses(t *testing.T) {
	release := make(chan struct{})
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			w.Write(noise(4, 50_000))
			w.(http.Flusher).Flush()
			select {
			case <-release:
				w.Write(noise(5, 50_000))
			case <-r.Context().Done():
			}
			return
		case "/length":
			w.Header().Set("Content-Length", "100000")
		}
		w.Write(noise(6, 50_000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	client := peer.dial(t)
	other, err := client.RoundTrip(request(t, http.MethodGet, "/other", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/length", "/chunks"} {
		got, err := client.send(request(t, http.MethodGet, path, nil))
		if code, reset := streamCode(err); !reset || code == http3.ErrCodeNoError {
			t.Errorf("%s: %d bytes and then %v", path, len(got.body), err)
		}
		if !bytes.HasPrefix(noise(6, 50_000), got.body) {
			t.Errorf("%s: %d bytes that the upstream has not sent", path, len(got.body))
		}
	}
	close(release)
	body, err := io.ReadAll(other.Body)
	if err != nil {
		t.Fatalf("the other stream: %v", err)
	}
	if err := same(body, append(noise(4, 50_000), noise(5, 50_000)...)); err != nil {
		t.Errorf("the other stream: %v", err)
	}
	client.goesOn(t)
}

func TestHugeHeads(t *testing.T) {
	peer := start(t, alive(func(http.ResponseWriter, *http.Request) { t.Error("the upstream has got a request with a huge head") }))
	client := peer.dial(t)
	codes := []http3.ErrCode{http3.ErrCodeExcessiveLoad, http3.ErrCodeRequestRejected, http3.ErrCodeMessageError}
	for _, length := range []int{headLimit + 4096, 2 << 20} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			got, err := client.send(request(t, http.MethodGet, "/", nil, "X-Huge", strings.Repeat("~", length)))
			code, reset := streamCode(err)
			switch {
			case err == nil && got.status == http.StatusRequestHeaderFieldsTooLarge:
			case reset && slices.Contains(codes, code):
			default:
				t.Errorf("%d, %v", got.status, err)
			}
			client.goesOn(t)
		})
	}
}
