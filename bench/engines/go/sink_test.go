package main

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// right are the responses to so many requests, from the first id on.
func right(answers int) []byte {
	var data []byte
	for i := range answers {
		data = append(data, "HTTP/1.1 200 OK\r\nDate: "+time.Now().UTC().Format(httpDate)+
			"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 19\r\n\r\n"...)
		data = append(data, textAnswer.bodies[i%len(answerIDs)]...)
	}
	return data
}

// compared is what a sink that knows the responses says of so many in these writes.
func compared(t *testing.T, answers int, writes ...[]byte) error {
	t.Helper()
	s := &sink{expected: textAnswer}
	_, _ = s.Write(right(1))
	if err := s.learn(1); err != nil {
		t.Fatal(err)
	}
	return s.measure(func(int) error {
		for _, data := range writes {
			_, _ = s.Write(data)
		}
		return nil
	}, answers)
}

func TestSinkTakesResponsesHoweverTheyAreSplit(t *testing.T) {
	all := right(20)
	for i := range all {
		if err := compared(t, 20, all[:i], all[i:]); err != nil {
			t.Fatalf("split at %d: %v", i, err)
		}
	}
	if err := compared(t, 20, slices.Collect(slices.Chunk(all, 1))...); err != nil {
		t.Errorf("byte for byte: %v", err)
	}
}

func TestSinkNoticesEachDifference(t *testing.T) {
	good := right(20)
	one := len(good) / 20
	rows := []struct {
		name string
		data []byte
	}{
		{"a response less", good[:19*one]},
		{"a response more", right(21)},
		{"a byte less", good[:len(good)-1]},
		{"a byte more", append(right(20), 'x')},
		{"the status", bytes.Replace(good, []byte("200"), []byte("500"), 1)},
		{"the response to another request", bytes.Replace(good, []byte("text 7"), []byte("text 8"), 1)},
		{"two responses in the wrong order", slices.Concat(good[one:2*one], good[:one], good[2*one:])},
		{"a text that was changed", bytes.Replace(good, []byte("from"), []byte("form"), 1)},
	}
	for _, row := range rows {
		if compared(t, 20, row.data) == nil {
			t.Errorf("%s: not noticed", row.name)
		}
		if compared(t, 20, slices.Collect(slices.Chunk(row.data, 50))...) == nil {
			t.Errorf("%s: not noticed in pieces", row.name)
		}
	}
}
