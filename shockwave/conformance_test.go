package shockwave

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
)

// The vectors in ../conformance/http1, so that none is passed over unseen. Those of the client role read
// answers, which a server never does: Titan's engine runs them.
const (
	serverVectorCount = 967
	clientVectorCount = 227
)

// exceptions are vectors that this engine does not pass yet, by id, and why. An entry whose vector passes
// fails.
var exceptions = map[string]string{}

func TestEveryVectorIsRun(t *testing.T) {
	count := make(map[string]int)
	for _, raw := range rawVectors(t) {
		count[raw.Role]++
	}
	if count["server"] != serverVectorCount || count["client"] != clientVectorCount {
		t.Errorf("vectors by role: %v; this runner knows of %d and %d", count, serverVectorCount, clientVectorCount)
	}
	for id := range exceptions {
		if !hasVector(t, id) {
			t.Errorf("an exception for %s, which is no vector", id)
		}
	}
}

func hasVector(t *testing.T, id string) bool {
	for _, vector := range serverVectors(t) {
		if vector.id == id {
			return true
		}
	}
	return false
}

func TestVectorsHoldAtOnce(t *testing.T) {
	checkVectors(t, func(vector vector) string { return vector.check(t, nil) })
}

func TestVectorsHoldByteByByte(t *testing.T) {
	checkVectors(t, func(vector vector) string { return vector.check(t, everyOffset(vector.input)) })
}

func TestVectorsHoldSplitAtEveryOffset(t *testing.T) {
	checkVectors(t, func(vector vector) string {
		for _, at := range splits(vector.input) {
			if failure := vector.check(t, []int{at}); failure != "" {
				return fmt.Sprintf("split at %d: %s", at, failure)
			}
		}
		return ""
	})
}

// TestVectorsHoldOverTCP is there because sockets are read in a way of their own. How many bytes are there at a
// time is the kernel's affair, so what is left of them is not compared; the client always closes its side.
func TestVectorsHoldOverTCP(t *testing.T) {
	checkVectors(t, func(vector vector) string {
		got, want := serveTCP(t, question{vector.limits, true, vector.input}).verdict(), vector.want
		isCutShort := got.reason == io.ErrUnexpectedEOF.Error() || got.reason == ""
		if got.outcome != accept && isCutShort {
			got.outcome = incomplete
		}
		got.message.rest, want.message.rest = "", ""
		if got.String() == want.String() {
			return ""
		}
		return fmt.Sprintf("\n  got  %v (%s)\n  want %v", got, got.reason, want)
	})
}

// checkVectors runs all of them; run returns what is wrong.
func checkVectors(t *testing.T, run func(vector) string) {
	for _, vector := range serverVectors(t) {
		failure := run(vector)
		reason, isException := exceptions[vector.id]
		switch {
		case failure != "" && !isException:
			t.Errorf("%s: %s", vector.id, failure)
		case failure == "" && isException:
			t.Errorf("%s passes: remove its exception (%s)", vector.id, reason)
		}
	}
}

// check returns how the engine's verdict differs from the vector's.
func (v vector) check(t *testing.T, ends []int) string {
	got := judge(t, question{v.limits, v.close, v.input}, ends)
	if got.String() == v.want.String() {
		return ""
	}
	return fmt.Sprintf("\n  got  %v (%s)\n  want %v", got, got.reason, v.want)
}

// TestUnreadBodiesAreNeverRequests has a handler that reads no body: it may see fewer requests than one that
// reads them, for the connection may be closed instead, but never others.
func TestUnreadBodiesAreNeverRequests(t *testing.T) {
	const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	unread := 0
	for _, q := range corpus(t, 5000) {
		q.input = append(bytes.Clone(q.input), next...)
		all, some := serve(q, nil, true).requests, serve(q, nil, false).requests
		if len(some) > len(all) {
			t.Fatalf("%q\n  read    %v\n  unread  %v", q.input, all, some)
		}
		for i := range some {
			// Their bodies are what differs.
			all[i].body, all[i].trailers, all[i].rest = "", nil, ""
			if some[i].String() != all[i].String() {
				t.Fatalf("%q\n  read    %v\n  unread  %v", q.input, all[i], some[i])
			}
		}
		if len(some) > 1 && len(some[0].fields) > 1 {
			unread++
		}
	}
	if unread < 100 {
		t.Errorf("only %d connections went on", unread)
	}
}

// TestAMessageIsReadAlikeWhereverItStands puts messages behind each other on a connection, which brings them
// in a few pieces: each is what it is alone, and so is what ends the connection.
func TestAMessageIsReadAlikeWhereverItStands(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var going, ending []question
	for _, q := range append(corpus(t, 3000), composed(3000)...) {
		verdict := judge(t, q, nil)
		switch {
		case q.limits != defaultLimits || len(q.input) > 2048:
		case verdict.outcome == accept && verdict.message.persist && verdict.message.rest == "":
			going = append(going, q)
		case verdict.outcome == reject:
			ending = append(ending, q)
		}
	}
	for range 3000 {
		messages := make([]question, 1+random.IntN(8))
		for i := range messages {
			messages[i] = going[random.IntN(len(going))]
		}
		messages = append(messages, ending[random.IntN(len(ending))])
		checkBatch(t, random, messages)
	}
}

func checkBatch(t *testing.T, random *rand.Rand, messages []question) {
	t.Helper()
	var input []byte
	var want []verdict
	for _, q := range messages {
		input = append(input, q.input...)
		want = append(want, judge(t, q, nil))
	}
	ends := []int{random.IntN(len(input)), random.IntN(len(input)), random.IntN(len(input))}
	slices.Sort(ends)
	w := serve(question{defaultLimits, false, input}, ends, true)
	answers, whole := w.answers(w.conn.sent.Len())
	if len(answers) != len(messages) || !whole {
		t.Fatalf("%d responses to %d messages\n  input   %q\n  split   %v\n  answers %q",
			len(answers), len(messages), input, ends, w.conn.sent.String())
	}
	last := len(messages) - 1
	for i, want := range want[:last] {
		got := w.requests[i]
		got.persist, got.rest = true, ""
		if got.String() != want.message.String() {
			t.Fatalf("message %d\n  got   %v\n  want  %v\n  input %q\n  split %v", i, got, want.message, input, ends)
		}
	}
	if answers[last].status != want[last].status {
		t.Fatalf("the end\n  got   %v\n  want  %v\n  input %q\n  split %v", answers[last], want[last], input, ends)
	}
}

// TestFaultBehindHEADGetsAWholeResponse has a client that counts on the Content-Length of the second response,
// which is not one to HEAD.
func TestFaultBehindHEADGetsAWholeResponse(t *testing.T) {
	w := serve(question{defaultLimits, false, []byte("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nfault\r\n")}, nil, true)
	if answers, whole := w.answers(w.conn.sent.Len()); len(answers) != 2 || !whole {
		t.Errorf("%q", w.conn.sent.String())
	}
}

func everyOffset(input []byte) []int {
	offsets := make([]int, len(input))
	for i := range offsets {
		offsets[i] = i
	}
	return offsets
}

// splits returns every offset; of a long input, which is mostly runs, those next to line ends and a sample
// of the others.
func splits(input []byte) []int {
	const long, sample = 4096, 64
	if len(input) <= long {
		return append(everyOffset(input), len(input))
	}
	var offsets []int
	for at := range input {
		near := input[max(at-2, 0):min(at+2, len(input))]
		if at%(len(input)/sample) == 0 || bytes.ContainsAny(near, "\r\n") {
			offsets = append(offsets, at)
		}
	}
	return offsets
}
