package parse_test

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"titan.test/shockwave/parse"
)

// naiveTrailers is the twin of Trailers: the status of a fault, "incomplete", or the section's length.
func naiveTrailers(in []byte, l parse.Limits) string {
	text := in[:min(len(in), l.Trailers)]
	for n := 0; ; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		status := naiveFieldLine(line, whole)
		name, _, _ := strings.Cut(string(line), ":")
		name = "," + lowered(name) + ","
		switch {
		case status != 0:
			return strconv.Itoa(status)
		case !whole && len(in) > l.Trailers:
			return "431"
		case !whole:
			return "incomplete"
		case len(line) == 1:
			return strconv.Itoa(min(len(in), l.Trailers)-len(rest)) + " bytes"
		case n == l.Fields:
			return "431"
		case strings.Contains(forbidden, name) || strings.HasPrefix(name, ",if-"):
			return "400"
		}
		text = rest
	}
}

const forbidden = ",transfer-encoding,content-length,host,connection,trailer,te,upgrade,authorization,proxy-authorization," +
	"proxy-authenticate,www-authenticate,cookie,set-cookie,content-encoding,content-type,content-range,cache-control,expect," +
	"range,max-forwards,pragma,age,date,location,retry-after,vary,warning,keep-alive,proxy-connection,"

func describeTrailers(n int, err error) string {
	var fault *parse.Error
	switch {
	case errors.As(err, &fault):
		return strconv.Itoa(fault.Status)
	case err != nil:
		return "incomplete"
	}
	return strconv.Itoa(n) + " bytes"
}

func FuzzTrailers(f *testing.F) {
	for _, seed := range []string{
		"\r\n", "\r", "", "X: 1\r\n\r\n", "X: 1\r\nY:2 \r\n\r\nrest", "Host: a\r\n\r\n", "If-Match: a\r\n\r\n", "if-: a\r\n\r\n",
		"X : 1\r\n", " X: 1\r\n", "X: 1\n\r\n", "X: 1\r\r\n", "X: \x00\r\n", "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n",
		"A: " + strings.Repeat("b", 60) + "\r\n\r\n", "\n", "\r\r", "Date: x\r\n", "DATE: x\r\n", "Datex: x\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	l := parse.Limits{Trailers: 50, Fields: 3}
	var trailers parse.Trailers
	trailers.Init(l)
	f.Fuzz(func(t *testing.T, in []byte) {
		want := naiveTrailers(in, l)
		trailers.Reset()
		if got := describeTrailers(trailers.Parse(in, 0)); got != want {
			t.Fatalf("%q: %s, want %s", in, got, want)
		}
		for split := range in {
			trailers.Reset()
			n, err := trailers.Parse(append([]byte("0\r\n"), in[:split]...), 3)
			if err == parse.ErrIncomplete {
				n, err = trailers.Parse(in, 0)
			} else {
				n -= 3
			}
			if got := describeTrailers(n, err); got != want {
				t.Fatalf("%q split at %d: %s, want %s", in, split, got, want)
			}
		}
	})
}

func TestTrailersAreFields(t *testing.T) {
	var trailers parse.Trailers
	trailers.Init(parse.Limits{})
	b := []byte("0\r\nX-Sum: 1\r\nx-Time:\t2 \r\n\r\nGET")
	next, err := trailers.Parse(b, 3)
	if err != nil || string(b[next:]) != "GET" {
		t.Fatalf("%d, %v", next, err)
	}
	sum, _ := trailers.Lookup("x-sum")
	time, _ := trailers.Lookup("X-Time")
	if trailers.Len() != 2 || string(sum) != "1" || string(time) != "2" {
		t.Errorf("%d: %q, %q", trailers.Len(), sum, time)
	}
	trailers.Reset()
	if trailers.Len() != 0 {
		t.Error("fields after Reset")
	}
}

func TestTrailersAllocateNothingAgain(t *testing.T) {
	b := []byte(strings.Repeat("X-Sum: 1\r\n", 64) + "\r\n")
	var trailers parse.Trailers
	trailers.Init(parse.Limits{})
	if n := testing.AllocsPerRun(100, func() {
		if _, err := trailers.Parse(b, 0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
