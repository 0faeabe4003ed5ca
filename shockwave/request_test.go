package shockwave

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// seen serves one request and calls look in its handler.
func seen(t *testing.T, request string, look func(c *Ctx)) {
	t.Helper()
	called := false
	play(t, &Server{Handler: func(c *Ctx) {
		called = true
		look(c)
	}}, request)
	if !called {
		t.Errorf("not served: %q", request)
	}
}

func TestRequestIsSeen(t *testing.T) {
	request := "PURGE /a%20b/c?x=1&y=a%2Bb+c&x=2&z&=e&p=%zz HTTP/1.1\r\nHost: h:1\r\nX-Any:  v\t\r\nUser-Agent: me\r\nx-any: w\r\n" +
		"Cookie: a=1; b=\"2\"; c\r\nCookie: d=4=5;a=6\r\nContent-Length: 0\r\n\r\n"
	seen(t, request, func(c *Ctx) {
		path, ok := c.DecodedPath()
		for name, pair := range map[string][2]string{
			"Method":      {c.Method(), "PURGE"},
			"Target":      {string(c.Target()), "/a%20b/c?x=1&y=a%2Bb+c&x=2&z&=e&p=%zz"},
			"Path":        {string(c.Path()), "/a%20b/c"},
			"DecodedPath": {fmt.Sprintf("%s %t", path, ok), "/a b/c true"},
			"Query":       {string(c.Query()), "x=1&y=a%2Bb+c&x=2&z&=e&p=%zz"},
			"x":           {string(c.QueryValue("x")), "1"},
			"y":           {string(c.QueryValue("y")), "a+b c"},
			"z":           {fmt.Sprint(c.QueryValue("z") != nil, len(c.QueryValue("z"))), "true 0"},
			"p":           {string(c.QueryValue("p")), "%zz"},
			"none":        {fmt.Sprint(c.QueryValue("none") == nil), "true"},
			"Host":        {string(c.Host()), "h:1"},
			"Header":      {string(c.Header("X-ANY")), "v"},
			"no-Header":   {fmt.Sprint(c.Header("X-None") == nil), "true"},
			"Field":       {string(c.Field(parse.FieldUserAgent)), "me"},
			"Cookie":      {string(c.Cookie("b")), "2"},
			"Cookie-d":    {string(c.Cookie("d")), "4=5"},
			"no-Cookie":   {fmt.Sprint(c.Cookie("c") == nil), "true"},
			"Proto":       {c.Proto(), "HTTP/1.1"},
			"RemoteAddr":  {c.RemoteAddr().String(), "127.0.0.1:50000"},
			"LocalAddr":   {c.LocalAddr().String(), "127.0.0.1:80"},
			"TLS":         {fmt.Sprint(c.TLS() == nil), "true"},
			"Number":      {fmt.Sprint(c.Number(), c.Server().Connections()), "1 1"},
			"Length":      {fmt.Sprint(c.ContentLength(), c.WantsContinue()), "0 false"},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: got %q, want %q", name, pair[0], pair[1])
			}
		}
		names := ""
		for name, value := range c.Cookies() {
			names += string(name) + "=" + string(value) + " "
		}
		if names != "a=1 b=2 d=4=5 a=6 " {
			t.Errorf("cookies: %q", names)
		}
		for range c.Cookies() {
			break
		}
		for range c.QueryValues() {
			break
		}
	})
}

func TestMalformedPathIsRecognised(t *testing.T) {
	for _, path := range []string{"/%", "/%4", "/%zz", "/a%20%"} {
		seen(t, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n", func(c *Ctx) {
			if got, ok := c.DecodedPath(); ok {
				t.Errorf("%s: %q", path, got)
			}
		})
	}
}

func TestAbsoluteTarget(t *testing.T) {
	seen(t, "GET http://h:1?q HTTP/1.1\r\nHost: H:1\r\n\r\n", func(c *Ctx) {
		if got := fmt.Sprintf("%s %s %s", c.Host(), c.Path(), c.Query()); got != "h:1 / q" {
			t.Errorf("got %q", got)
		}
	})
}

func TestTrailersComeWithTheEnd(t *testing.T) {
	seen(t, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: 1\r\nY: 2\r\n\r\n", func(c *Ctx) {
		if c.ContentLength() != -1 {
			t.Errorf("length %d", c.ContentLength())
		}
		for range c.Trailers() {
			t.Error("trailers before the body was read")
		}
		body, err := c.ReadBody(-1)
		if string(body) != "a" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
		if again, err := c.ReadBody(-1); string(again) != "a" || err != nil {
			t.Errorf("again: %q, %v", again, err)
		}
		trailers := fieldLines(c.Trailers())
		if !reflect.DeepEqual(trailers, []FieldLine{{"X", "1"}, {"Y", "2"}}) {
			t.Errorf("got %v", trailers)
		}
	})
}

// A Clone is what it was when everything else is gone.
func TestCloneIsDetached(t *testing.T) {
	var clone *Request
	handler := func(c *Ctx) {
		c.ReadBody(-1)
		if c.Number() == 1 {
			clone = c.Clone()
		}
	}
	first := "POST /p?q HTTP/1.1\r\nHost: h\r\nX: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 2\r\n\r\n"
	play(t, &Server{Handler: handler}, first+strings.ToUpper(strings.NewReplacer("POST", "PUT", "abc", "xyz", "h", "j").Replace(first)))
	want := &Request{
		Method: "POST", Target: "/p?q", Path: "/p", Query: "q", Host: "h", Proto: "HTTP/1.1",
		Fields:        []FieldLine{{"Host", "h"}, {"X", "1"}, {"Transfer-Encoding", "chunked"}},
		Trailers:      []FieldLine{{"T", "2"}},
		ContentLength: -1,
		Body:          []byte("abc"),
		RemoteAddr:    clone.RemoteAddr,
		LocalAddr:     clone.LocalAddr,
	}
	if !reflect.DeepEqual(clone, want) {
		t.Errorf("\n got %+v\nwant %+v", clone, want)
	}
	if clone.Header("x") != "1" || clone.Header("y") != "" {
		t.Error("Header does not find")
	}
}
