package stdhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"titan.test/shockwave"
)

func TestDo(t *testing.T) {
	h := func(c *shockwave.Ctx) {
		body, err := c.ReadBody(-1)
		c.Trailer("X-Sum", "1")
		fmt.Fprintf(c, "%s %s %s %v", c.Method(), c.Target(), body, err)
	}
	for name, r := range map[string]*http.Request{
		"of a client": request(t, "POST", "http://h.example/a?b", strings.NewReader("x")),
		"of a server": httptest.NewRequest("POST", "/a?b", strings.NewReader("x")),
		"of unknown length": request(t, "POST", "http://h.example/a?b",
			io.MultiReader(strings.NewReader("x"))),
	} {
		response, err := Do(h, r)
		if err != nil {
			t.Fatal(name, err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != "POST /a?b x <nil>" || err != nil || response.Trailer.Get("X-Sum") != "1" {
			t.Error(name, string(body), err, response.Trailer)
		}
		if response.Close || response.Header.Get("Connection") != "" {
			t.Error(name, "the connection in memory shows:", response.Header)
		}
	}
}

func TestDoGivesInterimResponses(t *testing.T) {
	var hints []int
	r := request(t, "GET", "http://h.example/", nil)
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
			hints = append(hints, code)
			return nil
		},
	}))
	response, err := Do(func(c *shockwave.Ctx) { c.Early("Link", "</a>") }, r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if len(hints) != 1 || hints[0] != 103 {
		t.Error(hints)
	}
}

func TestDoFails(t *testing.T) {
	r := request(t, "GET", "http://h.example/", nil)
	if _, err := Do(func(*shockwave.Ctx) { panic(shockwave.ErrAbort) }, r); err == nil {
		t.Error("an aborted exchange has a response")
	}
	r.Header["X A"] = []string{"b"}
	if _, err := Do(func(*shockwave.Ctx) {}, r); !errors.Is(err, ErrBadRequest) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r = request(t, "GET", "http://h.example/", nil).WithContext(ctx)
	_, err := Do(func(c *shockwave.Ctx) {
		cancel()
		<-c.Context().Done()
	}, r)
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestCloseOfDoCancels(t *testing.T) {
	cancelled := make(chan struct{})
	response, err := Do(func(c *shockwave.Ctx) {
		c.Flush()
		<-c.Context().Done()
		close(cancelled)
	}, request(t, "GET", "http://h.example/", nil))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	await(t, "end of the context", cancelled)
}

func TestServers(t *testing.T) {
	h := func(c *shockwave.Ctx) { c.SendString("text/plain", "x") }
	for want, server := range map[string]*TestServer{"HTTP/1.1 x": NewServer(h), "HTTP/2.0 x": NewTLSServer(h)} {
		response, body := fetch(t, server.Client(), request(t, "GET", server.URL, nil))
		server.Close()
		if got := response.Proto + " " + body; got != want {
			t.Errorf("%s: %q", server.URL, got)
		}
		if _, err := server.Client().Get(server.URL); err == nil {
			t.Error("a closed server answers")
		}
	}
}
