package parse_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// A vector is what ../../conformance/http1 says of one message, as far as its head decides it.
type vector struct {
	ID, Role, Verdict string
	Limits            map[string]int64
	Input             wireText
	Status            int
	Head              struct{ Method, Target, Version wireText }
	Fields            [][2]wireText
	Body, Rest        wireText
	Persist           bool
	ExpectContinue    bool `json:"expect_continue"`
}

// bytes are a string of which each character is one byte, or an array of such strings and repetitions.
type wireText string

func (o *wireText) UnmarshalJSON(text []byte) error {
	var parts []json.RawMessage
	if text[0] != '[' {
		parts = []json.RawMessage{text}
	} else if err := json.Unmarshal(text, &parts); err != nil {
		return err
	}
	var all strings.Builder
	for _, part := range parts {
		run := struct {
			Repeat string
			Times  int
		}{Times: 1}
		into := any(&run)
		if part[0] == '"' {
			into = &run.Repeat
		}
		if err := json.Unmarshal(part, into); err != nil {
			return err
		}
		var once []byte
		for _, c := range run.Repeat {
			once = append(once, byte(c))
		}
		all.WriteString(strings.Repeat(string(once), run.Times))
	}
	*o = wireText(all.String())
	return nil
}

func vectors(t testing.TB) []vector {
	t.Helper()
	paths, err := filepath.Glob("../../conformance/http1/91*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	var all []vector
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []vector }
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, v := range file.Vectors {
			if v.Role == "server" {
				all = append(all, v)
			}
		}
	}
	return all
}

func (v vector) limits() parse.Limits {
	l := parse.Limits{
		Head:     int(v.Limits["head"]),
		Target:   int(v.Limits["target"]),
		Fields:   int(v.Limits["fields"]),
		Trailers: int(v.Limits["trailers"]),
		Body:     v.Limits["body"],
	}
	if body, ok := v.Limits["body"]; ok && body == 0 {
		l.Body = -1
	}
	return l
}

// verdict is what a vector or a parser says of a head, for comparison as a whole.
type verdict struct {
	status          int // 0: accepted
	incomplete      bool
	head            string
	consumed        int
	persist, expect bool
	length          int64
	chunked         bool
}

func judge(h *parse.Head, n int, err error) verdict {
	var fault *parse.Error
	switch {
	case errors.Is(err, parse.ErrIncomplete):
		return verdict{incomplete: true}
	case errors.As(err, &fault):
		return verdict{status: fault.Status}
	}
	version := fmt.Sprintf("HTTP/1.%d", min(h.Minor(), 1))
	text := fmt.Sprintf("%s %s %s\n", h.Method(), h.Target(), version)
	for name, value := range h.All() {
		text += fmt.Sprintf("%s: %s\n", name, value)
	}
	return verdict{0, false, text, n, h.KeepAlive, h.ExpectContinue, h.ContentLength, h.Chunked}
}

// check compares a verdict on the head with the vector's on the whole message.
func (v vector) check(t *testing.T, got verdict) {
	t.Helper()
	rest := 0
	if got.status == 0 && !got.incomplete {
		rest = len(v.Input) - got.consumed
	}
	switch v.Verdict {
	case "accept":
		text := fmt.Sprintf("%s %s %s\n", v.Head.Method, v.Head.Target, v.Head.Version)
		for _, f := range v.Fields {
			text += fmt.Sprintf("%s: %s\n", f[0], f[1])
		}
		if got.status != 0 || got.head != text || got.persist != v.Persist || got.expect != v.ExpectContinue {
			t.Errorf("%s: %+v, want %q", v.ID, got, text)
		}
		if v.Persist && !got.chunked && rest != len(v.Body)+len(v.Rest) {
			t.Errorf("%s: %d bytes behind the head, want %d", v.ID, rest, len(v.Body)+len(v.Rest))
		}
	case "reject":
		if got.status != v.Status && !(got.status == 0 && !got.incomplete && got.chunked) {
			t.Errorf("%s: %+v, want %d", v.ID, got, v.Status)
		}
	case "incomplete":
		if got.status != 0 || !got.incomplete && !got.chunked && got.length <= int64(rest) {
			t.Errorf("%s: %+v, want incomplete", v.ID, got)
		}
	}
}

func TestVectorsWhole(t *testing.T) {
	for _, v := range vectors(t) {
		var p parse.Parser
		p.Init(v.limits())
		n, err := p.Parse([]byte(v.Input), 0)
		v.check(t, judge(p.Head(), n, err))
	}
}

func TestVectorsByteByByte(t *testing.T) {
	for _, v := range vectors(t) {
		var p parse.Parser
		p.Init(v.limits())
		n, err := 0, parse.ErrIncomplete
		for end := 0; end <= len(v.Input) && err == parse.ErrIncomplete; end++ {
			n, err = p.Parse([]byte(v.Input[:end]), 0)
		}
		v.check(t, judge(p.Head(), n, err))
	}
}

// Between the two pieces the bytes move within their buffer.
func TestVectorsAtEverySplit(t *testing.T) {
	for _, v := range vectors(t) {
		moved := append([]byte("some bytes before"), v.Input...)
		for split := 0; split <= len(v.Input); split++ {
			if len(v.Input) > 4096 && split%97 != 0 && !strings.ContainsAny(string(v.Input[max(split-1, 0):min(split+2, len(v.Input))]), "\r\n") {
				continue
			}
			var p parse.Parser
			p.Init(v.limits())
			n, err := p.Parse([]byte(v.Input[:split]), 0)
			if err == parse.ErrIncomplete {
				at := len(moved) - len(v.Input)
				n, err = p.Parse(moved, at)
				n -= at
			}
			v.check(t, judge(p.Head(), n, err))
		}
	}
}
