package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"titan.test/shockwave"
)

// A service holds its responses ready, so that the proxies and not their backend are what limits a run.
type service struct {
	// bodies are the responses to GET by target.
	bodies map[string][]byte
	// posted is the receipt for the length posted last: a run posts one length.
	posted atomic.Pointer[receipt]
}

type receipt struct {
	size int
	body []byte
}

func newService() *service {
	s := &service{bodies: map[string][]byte{"/30k": pattern[:medium], "/1m": pattern}}
	for variant := range variants {
		s.bodies[fmt.Sprintf("/small/%d", variant)] = smallAnswer(variant)
	}
	return s
}

func (s *service) handle(c *shockwave.Ctx) {
	body, found := s.bodies[string(c.Target())]
	switch {
	case found && c.Method() == "GET":
		answer(c, body)
	case string(c.Target()) == "/post" && c.Method() == "POST":
		s.post(c)
	case found:
		refuse(c, 405)
	default:
		refuse(c, 404)
	}
}

// post checks the body byte for byte: a proxy that changes one is found out.
func (s *service) post(c *shockwave.Ctx) {
	body, err := c.ReadBody(largest)
	switch {
	case errors.Is(err, shockwave.ErrBodyTooLong):
		refuse(c, 413)
	case err != nil:
		refuse(c, 400)
	case !bytes.Equal(body, pattern[:len(body)]):
		refuse(c, 422)
	default:
		answer(c, s.receipt(len(body)))
	}
}

func (s *service) receipt(size int) []byte {
	last := s.posted.Load()
	if last == nil || last.size != size {
		last = &receipt{size, receiptFor(size)}
		s.posted.Store(last)
	}
	return last.body
}

func answer(c *shockwave.Ctx, body []byte) {
	// What fails here is the connection, which the engine closes.
	_ = c.Send("application/octet-stream", body)
}

func refuse(c *shockwave.Ctx, status int) {
	_ = c.SetStatus(status)
	_ = c.Send("", nil)
}
