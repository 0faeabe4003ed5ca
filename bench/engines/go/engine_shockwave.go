package main

import (
	"bytes"
	"fmt"
	"net"

	"titan.test/shockwave"
	"titan.test/shockwave/parse"
)

var shockwaveEngine = engine{
	name:       subject,
	module:     "titan.test/shockwave",
	parse:      shockwaveParse,
	write:      shockwaveWrite,
	besides:    shockwaveReadBatch,
	connection: shockwaveConnection,
	listen:     func(l net.Listener) error { return shockwaveServer().Serve(l) },
}

// The buffer is as long as those that the other engines read into by default.
func shockwaveParse(in *input) reading {
	data := &source{in.data}
	b := make([]byte, 4096)
	var p parse.Parser
	p.Init(parse.Limits{})
	var body []byte
	run := func(n int) error {
		for range n {
			filled, _ := data.Read(b)
			end, err := p.Parse(b[:filled], 0)
			if err != nil {
				return err
			}
			head := p.Head()
			if body = b[end:filled]; head.HasBody() {
				body = body[:head.ContentLength]
			}
			if len(head.Target()) != len(in.target) || len(body) != len(in.body) {
				return errMisread
			}
		}
		return nil
	}
	return reading{run, func() request { return shockwaveRequest(p.Head(), body) }}
}

func shockwaveRequest(head *parse.Head, body []byte) request {
	found := request{method: head.Method(), target: string(head.Target()), body: string(body)}
	for name, value := range head.All() {
		found.fields = append(found.fields, fmt.Sprintf("%s: %s", name, value))
	}
	return found
}

// There is no response without a request: so this serves pipelined requests of 28 bytes.
func shockwaveWrite(a *answer, to *sink) func(int) error {
	server := shockwaveServer()
	in := leastInput(a)
	return func(n int) error { return server.ServeConn(newScript(in, n, flushEvery, to)) }
}

// shockwaveReadBatch parses what shockwaveWrite answers, as it comes there.
func shockwaveReadBatch(a *answer) func(int) error {
	in := leastInput(a)
	data := &source{in.batch(flushEvery)}
	b := make([]byte, 4096)
	var p parse.Parser
	p.Init(parse.Limits{})
	return func(n int) error {
		for read := 0; read < n; {
			filled, _ := data.Read(b)
			for at := 0; at < filled; read++ {
				next, err := p.Parse(b[:filled], at)
				if err != nil {
					return err
				}
				if len(p.Head().Target()) != len(in.target) {
					return errMisread
				}
				at = next
			}
		}
		return nil
	}
}

// leastInput is the shortest request that asks for the response.
func leastInput(a *answer) *input {
	if a == jsonAnswer {
		return inputJSON
	}
	return inputText
}

func shockwaveConnection() func(*script) error {
	server := shockwaveServer()
	return func(s *script) error { return server.ServeConn(s) }
}

func shockwaveServer() *shockwave.Server { return &shockwave.Server{Handler: shockwaveHandler} }

func shockwaveHandler(c *shockwave.Ctx) {
	if c.Method() == "POST" {
		body, err := c.ReadBody(-1)
		if err != nil || !bytes.Equal(body, inputPost.body) {
			_ = c.SetStatus(400)
			return
		}
	}
	a, body := answerFor(c.Target())
	for i := range a.fields {
		// The names and values are constants of this program, and good ones: the first responses were checked.
		_ = c.Set(a.fields[i][0], a.fields[i][1])
	}
	_ = c.Send(a.contentType, body)
}
