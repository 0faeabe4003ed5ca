package main

import (
	"fmt"
	"slices"
)

// A sink takes the responses to a batch of requests after another, and compares each with the one that is to come.
type sink struct {
	expected *answer
	// size is the bytes of one response. While it is not known, at first, all bytes are kept, and compared by learn.
	size int
	kept []byte
	// answers is how many came; the next is of the id that is behind theirs.
	answers int
	// part is the beginning of a response whose end has not come.
	part []byte
	// last are the responses that came last, by id. Each is right, or wrong is set.
	last [len(answerIDs)][]byte
	// wrong is the first response that was not the one to come.
	wrong error
}

func (s *sink) Write(b []byte) (int, error) {
	if s.size == 0 {
		s.kept = append(s.kept, b...)
	} else {
		s.compare(b)
	}
	return len(b), nil
}

// compare does not assume that writes end where answers do, though the engines' usually do.
func (s *sink) compare(b []byte) {
	data := b
	if len(s.part) > 0 {
		more := min(s.size-len(s.part), len(data))
		s.part = append(s.part, data[:more]...)
		if data = data[more:]; len(s.part) < s.size {
			return
		}
		s.take(s.part)
		s.part = s.part[:0]
	}
	for ; len(data) >= s.size; data = data[s.size:] {
		s.take(data[:s.size])
	}
	s.part = append(s.part, data...)
}

// take compares the bytes of a response with those that came last for its id, which costs less than a glance. They differ
// at least when the Date does.
func (s *sink) take(data []byte) {
	id := s.answers & (len(answerIDs) - 1)
	if string(data) != string(s.last[id]) {
		if err := s.expected.glance(data, s.size, id); err != nil && s.wrong == nil {
			s.wrong = err
		}
		s.last[id] = append(s.last[id][:0], data...)
	}
	s.answers++
}

// learn looks at every byte of what was kept, and has later answers compared with it.
func (s *sink) learn(answers int) (err error) {
	s.size, err = s.expected.checkAll(s.kept, answers)
	for i := 0; err == nil && i < answers; i++ {
		s.last[i%len(answerIDs)] = s.kept[i*s.size : (i+1)*s.size : (i+1)*s.size]
	}
	return err
}

// measure has n answers written from the first id on, and tells whether they came and nothing else.
func (s *sink) measure(write func(n int) error, n int) error {
	s.answers = 0
	if err := write(n); err != nil {
		return err
	}
	if s.wrong == nil && (s.answers != n || len(s.part) > 0) {
		return fmt.Errorf("%d answers and %d bytes instead of %d answers", s.answers, len(s.part), n)
	}
	return s.wrong
}

// compareOnly is what measure costs without an engine: n comparisons of responses.
func (s *sink) compareOnly() func(n int) error {
	data := slices.Concat(s.last[:]...)
	return func(n int) error {
		return s.measure(func(n int) error {
			for range n / len(answerIDs) {
				s.compare(data)
			}
			return nil
		}, n)
	}
}
