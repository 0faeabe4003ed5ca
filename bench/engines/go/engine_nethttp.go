package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// There is no way to write a response but through the server, so writing alone is left out.
var netHTTPEngine = engine{
	name:       netHTTP,
	parse:      netHTTPParse,
	connection: func() func(*script) error { return accepted(netHTTPListen) },
	listen:     netHTTPListen,
}

func netHTTPParse(in *input) reading {
	br := bufio.NewReader(&source{in.data})
	body := make([]byte, 64)
	var r *http.Request
	run := func(n int) (err error) {
		for range n {
			if r, err = http.ReadRequest(br); err != nil {
				return err
			}
			length, err := readAll(r.Body, body)
			if err != nil {
				return err
			}
			if len(r.RequestURI) != len(in.target) || length != len(in.body) {
				return errMisread
			}
		}
		return nil
	}
	return reading{run, func() request { return netHTTPRequest(r, body[:len(in.body)]) }}
}

// readAll reads a body that fits its buffer, which costs less than io.ReadAll with a buffer for each request.
func readAll(body io.Reader, buffer []byte) (length int, err error) {
	for err == nil {
		var n int
		n, err = body.Read(buffer[length:])
		length += n
	}
	if err != io.EOF {
		return length, err
	}
	return length, nil
}

func netHTTPRequest(r *http.Request, body []byte) request {
	found := request{method: r.Method, target: r.RequestURI, fields: []string{"Host: " + r.Host}, body: string(body)}
	for name, values := range r.Header {
		found.fields = append(found.fields, fmt.Sprintf("%s: %s", name, strings.Join(values, ",")))
	}
	return found
}

func netHTTPListen(l net.Listener) error { return http.Serve(l, http.HandlerFunc(netHTTPHandler)) }

func netHTTPHandler(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(body, inputPost.body) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	a, body := answerFor(r.RequestURI)
	fields := w.Header()
	fields.Set("Content-Type", a.contentType)
	for i := range a.fields {
		fields.Set(a.fields[i][0], a.fields[i][1])
	}
	_, _ = w.Write(body)
}
