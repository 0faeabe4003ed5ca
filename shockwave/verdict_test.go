package shockwave

import (
	"fmt"
	"strings"
)

// An outcome is what becomes of the first message.
type outcome string

const (
	accept     outcome = "accept"
	reject     outcome = "reject"
	incomplete outcome = "incomplete"
)

// A verdict is what an engine makes of the bytes that a peer sent, in the words of the vectors' README.
type verdict struct {
	outcome outcome
	status  int // of a reject
	message message
	reason  string // for people, not a part of the verdict
}

// A message is what an accepted request consists of.
type message struct {
	method, target, version string
	persist, expect         bool
	fields                  []line
	body                    string
	trailers                []line
	rest                    string
}

// A line is a field: its name as received, and its value.
type line [2]string

// String returns the verdict as crates/titan-h1/examples/verdicts.rs prints it.
func (v verdict) String() string {
	switch v.outcome {
	case reject:
		return fmt.Sprintf("reject %d", v.status)
	case accept:
		return "accept " + v.message.String()
	}
	return string(v.outcome)
}

func (m message) String() string {
	return fmt.Sprintf("%s %s %s persist=%t expect=%t fields=%s body=%s trailers=%s rest=%s",
		quoted(m.method), quoted(m.target), quoted(m.version), m.persist, m.expect,
		list(m.fields), quoted(m.body), list(m.trailers), quoted(m.rest))
}

func list(lines []line) string {
	words := make([]string, len(lines))
	for i, line := range lines {
		words[i] = quoted(line[0]) + " " + quoted(line[1])
	}
	return "[" + strings.Join(words, " ") + "]"
}

// quoted shows SP to ~ as they are, except quote and backslash; other bytes in hexadecimal.
func quoted(data string) string {
	var text strings.Builder
	text.WriteByte('"')
	for _, char := range []byte(data) {
		if char == '"' || char == '\\' || char < ' ' || char > '~' {
			fmt.Fprintf(&text, `\x%02x`, char)
			continue
		}
		text.WriteByte(char)
	}
	text.WriteByte('"')
	return text.String()
}
