package shockwave

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A vector is one of ../conformance/http1: bytes, and what becomes of them.
type vector struct {
	id     string
	limits messageLimits
	input  []byte
	close  bool
	want   verdict
}

// messageLimits are the limits that the vectors name, with their defaults filled in.
type messageLimits struct {
	head, target, fields, chunkLine, trailers int
	body                                      int64
}

// defaultLimits are those of the vectors' README.
var defaultLimits = messageLimits{16384, 8192, 100, 256, 4096, 1 << 20}

// serverVectors returns the vectors of the server role, ordered by id; the others have no use for an
// engine that only serves.
func serverVectors(tb testing.TB) []vector {
	tb.Helper()
	var vectors []vector
	for _, raw := range rawVectors(tb) {
		if raw.Role == "server" {
			vectors = append(vectors, raw.vector(tb))
		}
	}
	return vectors
}

// rawVectors returns all vectors, ordered by id.
func rawVectors(tb testing.TB) []rawVector {
	tb.Helper()
	paths, err := filepath.Glob("../conformance/http1/91*.json")
	if err != nil || len(paths) == 0 {
		tb.Fatalf("no vectors in ../conformance/http1: %v", err)
	}
	byID := make(map[string]rawVector)
	for _, path := range paths {
		for _, raw := range rawVectorsIn(tb, path) {
			byID[raw.ID] = raw
		}
	}
	ids := slices.Sorted(maps.Keys(byID))
	vectors := make([]rawVector, len(ids))
	for i, id := range ids {
		vectors[i] = byID[id]
	}
	return vectors
}

func rawVectorsIn(tb testing.TB, path string) []rawVector {
	tb.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	// A key that this file does not know would be an expectation that is not compared.
	decoder.DisallowUnknownFields()
	var file struct {
		Section, Title string
		Vectors        []rawVector
	}
	if err := decoder.Decode(&file); err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	return file.Vectors
}

// A rawVector is a vector as its file has it, of either role.
type rawVector struct {
	ID, RFC, Why, Note, Role string
	RequestMethod            string `json:"request_method"`
	Limits                   map[string]int64
	Input                    wireText
	Close                    bool
	Verdict                  string
	Status                   int
	Head                     struct {
		Method, Target, Version wireText
		Status                  int
		Reason                  wireText
	}
	Fields, Trailers [][2]wireText
	Body, Rest       wireText
	Interim          json.RawMessage
	Persist          bool
	ExpectContinue   bool `json:"expect_continue"`
}

func (raw rawVector) vector(tb testing.TB) vector {
	tb.Helper()
	limits := defaultLimits
	for name, value := range raw.Limits {
		switch name {
		case "head":
			limits.head = int(value)
		case "target":
			limits.target = int(value)
		case "fields":
			limits.fields = int(value)
		case "chunk_line":
			limits.chunkLine = int(value)
		case "trailers":
			limits.trailers = int(value)
		case "body":
			limits.body = value
		default:
			tb.Fatalf("%s: unknown limit %q", raw.ID, name)
		}
	}
	want := verdict{outcome: outcome(raw.Verdict), status: raw.Status}
	if want.outcome == accept {
		want.message = message{
			method:   string(raw.Head.Method),
			target:   string(raw.Head.Target),
			version:  string(raw.Head.Version),
			persist:  raw.Persist,
			expect:   raw.ExpectContinue,
			fields:   lines(raw.Fields),
			body:     string(raw.Body),
			trailers: lines(raw.Trailers),
			rest:     string(raw.Rest),
		}
	}
	return vector{raw.ID, limits, []byte(raw.Input), raw.Close, want}
}

func lines(pairs [][2]wireText) []line {
	lines := make([]line, len(pairs))
	for i, pair := range pairs {
		lines[i] = line{string(pair[0]), string(pair[1])}
	}
	return lines
}

// bytes are a JSON string in which each character is one byte, or pieces and runs of such strings.
type wireText string

// UnmarshalJSON joins the pieces.
func (o *wireText) UnmarshalJSON(text []byte) error {
	switch text[0] {
	case '"':
		return o.join(text)
	case '[':
		var pieces []wireText
		err := json.Unmarshal(text, &pieces)
		for _, piece := range pieces {
			*o += piece
		}
		return err
	}
	var run struct {
		Repeat wireText
		Times  int
	}
	err := json.Unmarshal(text, &run)
	*o = wireText(strings.Repeat(string(run.Repeat), run.Times))
	return err
}

func (o *wireText) join(text []byte) error {
	var characters string
	if err := json.Unmarshal(text, &characters); err != nil {
		return err
	}
	latin1 := make([]byte, 0, len(characters))
	for _, character := range characters {
		if character > 0xff {
			return fmt.Errorf("%q is not a byte", character)
		}
		latin1 = append(latin1, byte(character))
	}
	*o = wireText(latin1)
	return nil
}
