package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// answerIDs are the responses there are: each request names one with the last byte of its target.
const answerIDs = "0123456789abcdef"

// statusLine begins every response.
const statusLine = "HTTP/1.1 200 OK\r\n"

// A response is what all engines send: the same status, the same fields and the same body.
type answer struct {
	contentType string
	// fields are set beside Content-Type. Content-Length and Date are the engine's own.
	fields [][2]string
	bodies [len(answerIDs)][]byte
}

var (
	textAnswer = newAnswer("text/plain; charset=utf-8", nil, "Hello from text %c!\n")
	jsonAnswer = newAnswer("application/json", [][2]string{{"Cache-Control", "no-cache"}, {"Etag", `"33a64df551425fcc"`}},
		`{"id":42,"name":"Ada Lovelace","roles":["author","editor"],"active":true,"text":"%c"}`)
)

func newAnswer(contentType string, fields [][2]string, body string) *answer {
	a := &answer{contentType: contentType, fields: fields}
	for i := range a.bodies {
		a.bodies[i] = fmt.Appendf(nil, body, answerIDs[i])
	}
	return a
}

// answerFor is the rule by which every engine's handler chooses: targets below /json get JSON.
func answerFor[T string | []byte](target T) (*answer, []byte) {
	a := textAnswer
	if len(target) > 1 && target[1] == 'j' {
		a = jsonAnswer
	}
	return a, a.bodies[idOf(target)]
}

// idOf reads the last byte of a target as a hexadecimal digit.
func idOf[T string | []byte](target T) int {
	last := target[len(target)-1]
	if last >= 'a' {
		return int(last-'a'+10) & 15
	}
	return int(last) & 15
}

// check compares one response byte for byte, but for Date, with what was to come.
func (a *answer) check(data []byte, id int) error {
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if want := a.bodies[id]; response.StatusCode != 200 || !bytes.Equal(body, want) {
		return fmt.Errorf("answered %d %q instead of 200 %q", response.StatusCode, body, want)
	}
	return a.checkFields(response.Header, len(body))
}

func (a *answer) checkFields(fields http.Header, length int) error {
	want := append([][2]string{{"Content-Type", a.contentType}, {"Content-Length", strconv.Itoa(length)}}, a.fields...)
	for _, field := range want {
		if got := fields.Values(field[0]); len(got) != 1 || got[0] != field[1] {
			return fmt.Errorf("%s is %q instead of %q", field[0], got, field[1])
		}
	}
	date, err := http.ParseTime(fields.Get("Date"))
	if err != nil || time.Since(date).Abs() > time.Minute {
		return fmt.Errorf("the Date %q is not now", fields.Get("Date"))
	}
	if len(fields) != len(want)+1 {
		return fmt.Errorf("fields that the others do not send: %q", fields)
	}
	return nil
}

// checkAll compares a run of responses to the requests of a batch and returns the length of one: they are all equally
// long, so that later responses are told apart by it.
func (a *answer) checkAll(data []byte, requests int) (int, error) {
	size := len(data) / requests
	if size == 0 || len(data)%requests != 0 {
		return 0, fmt.Errorf("%d bytes do not hold %d responses of equal length", len(data), requests)
	}
	for i := range requests {
		if err := a.check(data[i*size:(i+1)*size], i%len(answerIDs)); err != nil {
			return 0, fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return size, nil
}

// glance is the cheap form of check for measured answers, whose fields were checked before: status, length, body.
func (a *answer) glance(data []byte, size, id int) error {
	if len(data) != size || !bytes.HasPrefix(data, []byte(statusLine)) || !bytes.HasSuffix(data, a.bodies[id]) {
		return fmt.Errorf("a wrong response: %q", data)
	}
	return nil
}
