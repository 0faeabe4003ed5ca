package parse_test

import (
	"errors"
	"fmt"

	"titan.test/shockwave/parse"
)

func ExampleParse() {
	h, n, err := parse.Parse([]byte("POST /orders?draft=1 HTTP/1.1\r\nHost: example.com\r\nContent-Length: 2\r\n\r\n{}"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.Method(), string(h.Path()), string(h.RawQuery()), string(h.Host()))
	fmt.Println(n, h.ContentLength, h.KeepAlive)
	// Output:
	// POST /orders draft=1 example.com
	// 71 2 true
}

func ExampleError() {
	_, _, err := parse.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"))
	var fault *parse.Error
	if errors.As(err, &fault) {
		fmt.Println(fault.Status, fault)
	}
	fmt.Println(errors.Is(err, parse.ErrDuplicateContentLength))
	// Output:
	// 400 there is more than one Content-Length (RFC 9112 section 6.3)
	// true
}

func ExampleParser() {
	var p parse.Parser
	p.Init(parse.Limits{Head: 4096})
	received := []byte("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHo")
	at := 0
	for {
		next, err := p.Parse(received, at)
		if errors.Is(err, parse.ErrIncomplete) && len(received) < 50 {
			received = append(received, "st: h\r\n\r\n"...)
			continue
		}
		if err != nil {
			break
		}
		fmt.Println(string(p.Head().Path()))
		at = next
	}
	// Output:
	// /a
	// /b
}

func ExampleFields_All() {
	h, _, _ := parse.Parse([]byte("GET / HTTP/1.1\r\nHost: a\r\nAccept:  */* \r\n\r\n"))
	for name, value := range h.All() {
		fmt.Printf("%s=%s\n", name, value)
	}
	// Output:
	// Host=a
	// Accept=*/*
}
