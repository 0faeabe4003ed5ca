package shockwave

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A titan is the other engine: a process that responses bytes with its verdict, one line each.
type titan struct {
	questions *bufio.Writer
	answers   *bufio.Reader
}

// A question is what both engines are asked.
type question struct {
	limits messageLimits
	close  bool
	input  []byte
}

// startTitan builds the program and keeps it running until the test ends. Without cargo the test is skipped, but not in
// continuous integration: there a comparison that is not made would look like agreement.
func startTitan(tb testing.TB) *titan {
	tb.Helper()
	cargo, err := exec.LookPath("cargo")
	if err != nil && os.Getenv("CI") == "" {
		tb.Skip("cargo is not on PATH, so the other engine cannot be built")
	}
	if err != nil {
		tb.Fatal(err)
	}
	command := exec.Command(buildTitan(tb, cargo))
	command.Stderr = os.Stderr
	questions, err := command.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	answers, err := command.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := command.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		questions.Close()
		// After a failure there are unread responses, and the process waits until they are read.
		io.Copy(io.Discard, answers)
		if err := command.Wait(); err != nil && !tb.Failed() {
			tb.Errorf("the other engine: %v", err)
		}
	})
	return &titan{bufio.NewWriter(questions), bufio.NewReader(answers)}
}

// buildTitan returns the path of the program, which cargo reports: it depends on the user's settings.
func buildTitan(tb testing.TB, cargo string) string {
	tb.Helper()
	build := exec.Command(cargo, "build", "--quiet", "--package", "titan-h1", "--example", "verdicts",
		"--message-format", "json-render-diagnostics")
	build.Dir = ".."
	build.Stderr = os.Stderr
	report, err := build.Output()
	if err != nil {
		tb.Fatalf("%v: %v", build, err)
	}
	for text := range bytes.Lines(report) {
		var artifact struct {
			Target     struct{ Name string }
			Executable string
		}
		if json.Unmarshal(text, &artifact) == nil && artifact.Target.Name == "verdicts" && artifact.Executable != "" {
			return artifact.Executable
		}
	}
	tb.Fatalf("%v names no executable", build)
	return ""
}

// ask sends a question; its response comes after those of the questions before it.
func (t *titan) ask(q question) error {
	closes := byte(0)
	if q.close {
		closes = 1
	}
	head := []byte{closes}
	for _, limit := range []int{q.limits.head, q.limits.target, q.limits.fields, q.limits.chunkLine, q.limits.trailers} {
		head = binary.BigEndian.AppendUint32(head, uint32(limit))
	}
	head = binary.BigEndian.AppendUint64(head, uint64(q.limits.body))
	head = binary.BigEndian.AppendUint32(head, uint32(len(q.input)))
	if _, err := t.questions.Write(head); err != nil {
		return err
	}
	_, err := t.questions.Write(q.input)
	return err
}

// answer returns the verdict as text, and the reason for it.
func (t *titan) answer() (verdict, reason string, err error) {
	text, err := t.answers.ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("the other engine gave no response: %w", err)
	}
	verdict, reason, _ = strings.Cut(strings.TrimSuffix(text, "\n"), "\t")
	return verdict, reason, nil
}

// TestAgreesWithTitan holds both engines against each other: every vector, and messages that are damaged
// vectors, always the same ones.
func TestAgreesWithTitan(t *testing.T) {
	const generated = 20000
	titan := startTitan(t)
	questions := append(corpus(t, generated), composed(generated)...)
	asked := make(chan error, 1)
	go func() {
		for _, q := range questions {
			if err := titan.ask(q); err != nil {
				asked <- err
				return
			}
		}
		asked <- titan.questions.Flush()
	}()
	outcomes := make(map[outcome]int)
	for _, q := range questions {
		theirs, reason, err := titan.answer()
		if err != nil {
			t.Fatal(err)
		}
		ours := judge(t, q, nil)
		outcomes[ours.outcome]++
		if ours.String() == theirs {
			ours = judge(t, q, []int{len(q.input) * 2 / 3})
		}
		if ours.String() != theirs {
			t.Error(difference(q, ours, theirs, reason))
		}
		if t.Failed() {
			// One fault shows in many messages.
			t.FailNow()
		}
	}
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	// The corpus is worth something only while it is near what is valid.
	for _, outcome := range []outcome{accept, reject, incomplete} {
		if outcomes[outcome] < generated/20 {
			t.Errorf("only %d of %d messages are %q", outcomes[outcome], len(questions), outcome)
		}
	}
}

// FuzzAgreesWithTitan searches for bytes on which the engines differ.
func FuzzAgreesWithTitan(f *testing.F) {
	titan := startTitan(f)
	for _, vector := range serverVectors(f) {
		// What is refused is one change away from what is not: more seeds only take more time to begin.
		if vector.want.outcome == accept && len(vector.input) <= 512 {
			f.Add(vector.input, byte(0), vector.close)
		}
	}
	f.Fuzz(func(t *testing.T, input []byte, choice byte, close bool) {
		q := question{limitsOf(choice), close, input}
		if err := titan.ask(q); err != nil {
			t.Fatal(err)
		}
		if err := titan.questions.Flush(); err != nil {
			t.Fatal(err)
		}
		theirs, reason, err := titan.answer()
		if err != nil {
			t.Fatal(err)
		}
		ends := make([]int, len(input))
		for i := range ends {
			ends[i] = i
		}
		for _, ends := range [][]int{nil, ends} {
			if ours := judge(t, q, ends); ours.String() != theirs {
				t.Fatal(difference(q, ours, theirs, reason))
			}
		}
	})
}

// corpus returns the vectors and so many mutations of them, the same ones each time.
func corpus(tb testing.TB, mutations int) []question {
	random := rand.New(rand.NewPCG(9110, 9112))
	var questions, short, valid []question
	for _, vector := range serverVectors(tb) {
		q := question{vector.limits, vector.close, vector.input}
		questions = append(questions, q)
		// Longer inputs only cost time: what they are long for is a limit, and limits are set low below.
		if len(q.input) > 2048 {
			continue
		}
		short = append(short, q)
		if vector.want.outcome == accept {
			valid = append(valid, q)
		}
	}
	for range mutations {
		from := valid
		if random.IntN(4) == 0 {
			from = short
		}
		q, other := from[random.IntN(len(from))], short[random.IntN(len(short))]
		q.input = mutate(random, q.input, other.input)
		questions = append(questions, vary(random, q))
	}
	return questions
}

// composed returns so many messages made of words, the same ones each time.
func composed(messages int) []question {
	random := rand.New(rand.NewPCG(3986, 6585))
	questions := make([]question, messages)
	for i := range questions {
		questions[i] = vary(random, question{defaultLimits, false, compose(random)})
	}
	return questions
}

// vary has the peer of some messages close, and lowers a limit for some.
func vary(random *rand.Rand, q question) question {
	q.close = random.IntN(4) == 0
	if random.IntN(4) == 0 {
		q.limits = limitsOf(byte(random.Uint32()))
	}
	return q
}

// limitsOf returns the defaults for 0, and otherwise one limit so low that short messages meet it.
func limitsOf(choice byte) messageLimits {
	limits, low := defaultLimits, int(choice/8)
	switch choice % 8 {
	case 1:
		limits.head = 24 + 4*low
	case 2:
		limits.target = 1 + low
	case 3:
		limits.fields = 1 + low%6
	case 4:
		limits.chunkLine = 1 + low%12
	case 5:
		limits.trailers = 2 + 2*low
	case 6:
		limits.body = int64(1 + low%12)
	}
	return limits
}

// difference says what the engines disagree about, and which rules decide.
func difference(q question, ours verdict, theirs, reason string) string {
	return fmt.Sprintf("the engines differ\n  input  %q\n  close  %t, limits %+v\n  here   %v (%s)\n  Titan  %s (%s)\n  rules  %s, in %s",
		q.input, q.close, q.limits, ours, ours.reason, theirs, reason,
		rules(reason+" "+ours.reason), "conformance/http1/README.md")
}

// rules names the paragraphs of the vectors' README that the reasons point to.
func rules(reasons string) string {
	var named []string
	for _, section := range regexp.MustCompile(`section ([0-9.]+[0-9]|[0-9]+)`).FindAllStringSubmatch(reasons, -1) {
		if rule := ruleOf[section[1]]; rule != "" && !slices.Contains(named, rule) {
			named = append(named, rule)
		}
	}
	return strings.Join(append(named, "the order of faults"), ", ")
}

// ruleOf names the paragraph that decides what a section of RFC 9112, RFC 9110 or RFC 6585 is about.
var ruleOf = map[string]string{
	"2.2": "Lines", "2.3": "Request line", "15.6.6": "Request line", "3": "Request line", "3.1": "Request line",
	"3.2": "Target", "3.2.2": "Target and Host", "7.2": "Host", "9.3.6": "Target (CONNECT)",
	"5": "Fields, or Limits", "5.1": "Fields", "5.2": "Lines", "5.5": "Fields",
	"6.1": "Transfer-Encoding", "6.2": "Content-Length", "8.6": "Content-Length", "6.3": "Content-Length and Body length",
	"7.1": "Chunked", "7.1.1": "Chunked", "7.1.2": "Trailers", "6.5.1": "Trailers", "8": "incomplete",
	"10.1.1": "Expect", "7.6.1": "Persistence", "9.3": "Persistence", "15.5.14": "Limits",
}
