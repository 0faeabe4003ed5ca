package http3

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"
	"testing"
)

func TestGet(t *testing.T) {
	heads := make(chan *http.Request, 1)
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		heads <- r.Clone(t.Context())
		length, _ := strconv.Atoi(r.URL.Query().Get("length"))
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header()["X-Twice"] = []string{"one", "two"}
		w.Write(noise(uint64(length), length))
	})
	client := peer.dial(t)
	for _, length := range []int{0, 1, 63, 64, 1200, 16383, 16384, 1 << 20} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			path := fmt.Sprintf("/a%%20b/%%C3%%A9;c?length=%d&empty=&x=%%2F", length)
			got := client.ask(t, request(t, http.MethodGet, path, nil, "X-Own", "its value", "X-Empty", ""), http.StatusOK,
				noise(uint64(length), length))
			field(t, got.header, "Content-Type", "application/octet-stream")
			field(t, got.header, "X-Twice", "one", "two")

			head := <-heads
			if head.Method != http.MethodGet || head.RequestURI != path || head.Host != authority {
				t.Errorf("the upstream got %s %s of %s", head.Method, head.RequestURI, head.Host)
			}
			field(t, head.Header, "X-Own", "its value")
			field(t, head.Header, "X-Empty", "")
		})
	}
}

// RFC 9114 section 4.2.1: crumbs of a cookie become one field where HTTP/3 ends.
func TestCookieCrumbs(t *testing.T) {
	cookies := make(chan []string, 1)
	peer := start(t, func(w http.ResponseWriter, r *http.Request) { cookies <- r.Header.Values("Cookie") })
	peer.dial(t).ask(t, request(t, http.MethodGet, "/", nil, "Cookie", "a=1", "Cookie", "b=2", "Cookie", "c=3"), http.StatusOK, nil)
	if got := <-cookies; len(got) != 1 || got[0] != "a=1; b=2; c=3" {
		t.Errorf("the upstream got the cookies %q", got)
	}
}

func TestHead(t *testing.T) {
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "4321")
		w.Header().Set("X-Method", r.Method)
	}))
	client := peer.dial(t)
	got := client.ask(t, request(t, http.MethodHead, "/", nil), http.StatusOK, nil)
	field(t, got.header, "Content-Length", "4321")
	field(t, got.header, "X-Method", http.MethodHead)
	client.goesOn(t)
}

func TestStatusesWithoutBody(t *testing.T) {
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Etag", `"it"`)
		w.WriteHeader(status)
	}))
	client := peer.dial(t)
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		got := client.ask(t, request(t, http.MethodGet, fmt.Sprintf("/%d", status), nil), status, nil)
		field(t, got.header, "Etag", `"it"`)
	}
	client.goesOn(t)
}

// echo sends back a body that it has got whole.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Write(body)
}

func TestPost(t *testing.T) {
	lengths := make(chan int64, 1)
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		lengths <- r.ContentLength
	})
	client := peer.dial(t)
	body := noise(1, 10<<20)
	t.Run("with content-length", func(t *testing.T) {
		client.ask(t, request(t, http.MethodPost, "/", bytes.NewReader(body)), http.StatusOK, body)
		if got := <-lengths; got != int64(len(body)) {
			t.Errorf("the upstream is told of %d bytes", got)
		}
	})
	t.Run("without", func(t *testing.T) {
		client.ask(t, request(t, http.MethodPost, "/", unsized{bytes.NewReader(body)}), http.StatusOK, body)
		if got := <-lengths; got != -1 {
			t.Errorf("the upstream is told of %d bytes", got)
		}
	})
	t.Run("of no bytes", func(t *testing.T) {
		client.ask(t, request(t, http.MethodPost, "/", nil), http.StatusOK, nil)
		if got := <-lengths; got != 0 {
			t.Errorf("the upstream is told of %d bytes", got)
		}
	})
}

func TestTrailers(t *testing.T) {
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Trailer", "X-Digest")
		w.WriteHeader(http.StatusOK)
		w.Write(body)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Digest", "of "+r.Trailer.Get("X-Sum"))
		w.Header()[http.TrailerPrefix+"X-Undeclared"] = []string{"one", "two"}
	})
	client := peer.dial(t)
	for _, length := range []int{0, 10, 100_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			body := noise(2, length)
			request := request(t, http.MethodPost, "/", unsized{bytes.NewReader(body)}, "Te", "trailers")
			request.Trailer = http.Header{"X-Sum": {"forty-two"}}
			got := client.ask(t, request, http.StatusOK, body)
			field(t, got.trailer, "X-Digest", "of forty-two")
			field(t, got.trailer, "X-Undeclared", "one", "two")
			field(t, got.header, "X-Digest")
		})
	}
}

// RFC 9114 section 6.1: a server should allow a client 100 requests at a time.
func TestStreamsInParallel(t *testing.T) {
	const streams = 100
	var arrived sync.WaitGroup
	arrived.Add(streams)
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		arrived.Done()
		all := make(chan struct{})
		go func() { arrived.Wait(); close(all) }()
		select {
		case <-all:
			w.Header().Set("X-Stream", r.Header.Get("X-Stream"))
			w.Write(body)
		case <-r.Context().Done():
		}
	})
	client := peer.dial(t)
	var requests sync.WaitGroup
	for i := range streams {
		body := noise(uint64(i), 1000*i)
		request := request(t, http.MethodPost, "/", bytes.NewReader(body), "X-Stream", fmt.Sprint(i))
		requests.Go(func() {
			got, err := client.send(request)
			if err == nil {
				err = same(got.body, body)
			}
			if err != nil || got.status != http.StatusOK || got.header.Get("X-Stream") != fmt.Sprint(i) {
				t.Errorf("request %d: %d of %s: %v", i, got.status, got.header.Get("X-Stream"), err)
			}
		})
	}
	requests.Wait()
}

func TestEarlyHints(t *testing.T) {
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Link", "</other.css>; rel=preload")
		io.WriteString(w, "page")
	})
	var hints []http.Header
	request := request(t, http.MethodGet, "/", nil)
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			if status != http.StatusEarlyHints {
				t.Errorf("an interim response of %d", status)
			}
			hints = append(hints, http.Header(header).Clone())
			return nil
		},
	}))
	got := peer.dial(t).ask(t, request, http.StatusOK, []byte("page"))
	if len(hints) != 1 {
		t.Fatalf("%d interim responses", len(hints))
	}
	field(t, hints[0], "Link", "</style.css>; rel=preload")
	field(t, got.header, "Link", "</other.css>; rel=preload")
}

func TestExpectContinue(t *testing.T) {
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		if judgesItself() {
			w.WriteHeader(http.StatusContinue)
		}
		echo(w, r)
	}))
	client := peer.dial(t)
	t.Run("continued", func(t *testing.T) {
		body := noise(3, 100_000)
		held := &heldBody{body: bytes.NewReader(body), release: make(chan struct{})}
		client.ask(t, held.expecting(request(t, http.MethodPost, "/taken", held)), http.StatusOK, body)
	})
	t.Run("refused", func(t *testing.T) {
		held := &heldBody{body: bytes.NewReader(nil), release: make(chan struct{})}
		response, err := client.RoundTrip(held.expecting(request(t, http.MethodPost, "/refused", held)))
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusExpectationFailed {
			t.Errorf("%d", response.StatusCode)
		}
		select {
		case <-held.release:
			t.Error("the body is asked for and then refused")
		default:
		}
		close(held.release)
		response.Body.Close()
		client.goesOn(t)
	})
}

// A heldBody is sent once the peer asks for it.
type heldBody struct {
	body    io.Reader
	release chan struct{}
}

func (b *heldBody) Read(into []byte) (int, error) {
	<-b.release
	return b.body.Read(into)
}

func (b *heldBody) expecting(request *http.Request) *http.Request {
	request.Header.Set("Expect", "100-continue")
	return request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
		Got100Continue: func() { close(b.release) },
	}))
}
