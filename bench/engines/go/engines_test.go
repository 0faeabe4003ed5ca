package main

import (
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	fast "github.com/valyala/fasthttp"
)

// The tests start server processes as the benchmark does: by running this program again.
func TestMain(m *testing.M) {
	engines = append(engines, &lyingEngine)
	if len(os.Args) > 2 && os.Args[1] == "-serve" {
		if err := serve(os.Args[2], ""); err != nil {
			panic(err)
		}
		return
	}
	// With -race a process waits for a second before it exits, and the tests start dozens.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// lyingEngine does the first 40 operations as all do. Later responses are those to another request, as long as the right
// ones and, but for that, right.
var lyingEngine = engine{
	name: "lying",
	connection: func() func(*script) error {
		server := lyingServer()
		return func(s *script) error { return server.ServeConn(s) }
	},
	listen: func(l net.Listener) error { return lyingServer().Serve(l) },
	write: func(a *answer, to *sink) func(int) error {
		others := *a
		slices.Reverse(others.bodies[:])
		write, lie := fasthttpWrite(a, to), fasthttpWrite(&others, to)
		return func(n int) error {
			if to.size == 0 {
				return write(n)
			}
			return lie(n)
		}
	},
}

func lyingServer() *fast.Server {
	var served atomic.Int64
	return &fast.Server{NoDefaultServerHeader: true, Handler: func(ctx *fast.RequestCtx) {
		fasthttpHandler(ctx)
		if served.Add(1) > 40 {
			a, _ := answerFor(ctx.RequestURI())
			fasthttpAnswer(&ctx.Response, a, a.bodies[0])
		}
	}}
}

var tiny = effort{
	rounds: 1, turn: 100 * time.Microsecond,
	tcpRounds: 1, warm: time.Millisecond, long: 10 * time.Millisecond,
	idleRounds: 1,
}

// small has fewer connections.
func small(s scenario) *scenario {
	if s.tcp != nil {
		s.tcp = &tcpScenario{connections: 2, depth: s.tcp.depth}
	}
	if s.idle != nil {
		s.idle = &idleScenario{connections: 3}
	}
	return &s
}

func TestResponsesToAnotherRequestAreNoticed(t *testing.T) {
	for i := range scenarios {
		s := small(scenarios[i])
		if strings.HasPrefix(s.name, "parse") {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			if s.idle != nil {
				s.idle.connections = 100
			}
			_, err := s.run([]*engine{&lyingEngine}, tiny)
			if err == nil {
				t.Fatal("not noticed")
			}
			if !strings.Contains(err.Error(), "a wrong response") {
				t.Error(err)
			}
		})
	}
}

func scenarioNamed(t *testing.T, name string) *scenario {
	for _, s := range scenarios {
		if s.name == name {
			return small(s)
		}
	}
	t.Fatalf("no scenario is named %s", name)
	return nil
}

func TestCheckFindsEachDifference(t *testing.T) {
	good := "HTTP/1.1 200 OK\r\nDate: " + time.Now().UTC().Format(httpDate) + "\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Length: 19\r\n\r\nHello from text 7!\n"
	if err := textAnswer.check([]byte(good), 7); err != nil {
		t.Fatal(err)
	}
	rows := []struct{ name, old, new string }{
		{"status", "200 OK", "201 OK"},
		{"text of another id", "text 7", "text 8"},
		{"type", "plain", "html"},
		{"date", "GMT", "GTM"},
		{"stale date", " 20", " 19"},
		{"length", "Length: 19", "Length: 18"},
		{"field more", "Date:", "Server: x\r\nDate:"},
		{"field twice", "Content-Type:", "Content-Type: text/plain; charset=utf-8\r\nContent-Type:"},
	}
	for _, row := range rows {
		if textAnswer.check([]byte(strings.Replace(good, row.old, row.new, 1)), 7) == nil {
			t.Errorf("%s: not noticed", row.name)
		}
	}
}

const httpDate = "Mon, 02 Jan 2006 15:04:05 GMT"

func TestCheckFindsWhatWasMisread(t *testing.T) {
	good := request{"POST", "/users/42/0", slices.Clone(postFields), string(inputPost.body)}
	good.fields[0] = strings.ToLower(good.fields[0])
	if err := inputPost.check(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*request){
		"method":     func(r *request) { r.method = "GET" },
		"target":     func(r *request) { r.target = "/" },
		"body":       func(r *request) { r.body = "" },
		"field lost": func(r *request) { r.fields = r.fields[1:] },
		"field more": func(r *request) { r.fields = append(r.fields, "a: b") },
		"value":      func(r *request) { r.fields[0] = "Host: example.org" },
	} {
		bad := good
		bad.fields = slices.Clone(good.fields)
		spoil(&bad)
		if inputPost.check(bad) == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func TestRatiosAreMediansWithinRounds(t *testing.T) {
	r := result{rows: []*row{
		{engine: &shockwaveEngine, costs: []float64{1, 2, 10}},
		{engine: &fasthttpEngine, costs: []float64{3, 4, 50}},
	}}
	if times := r.times(subject, fasthttp); times != 3 {
		t.Errorf("%v times, want 3", times)
	}
	if times := r.times(subject, netHTTP); times != 0 {
		t.Errorf("%v times an engine without figures", times)
	}
}

func TestVerdicts(t *testing.T) {
	rows := []struct {
		bar    bar
		figure float64
		want   string
	}{
		{bar{"parse", fasthttp, timesCheaper, 1.5, 2.5}, 1.49, "bar MISSED: parse 1.49x cheaper than fasthttp, at least 1.50x, aim 2.50x"},
		{bar{"parse", fasthttp, timesCheaper, 1.5, 2.5}, 1.5, "bar met: parse 1.50x cheaper than fasthttp, at least 1.50x, aim 2.50x"},
		{bar{"idle", "", residentBytes, 8000, 3000}, 8001, "bar MISSED: idle 8001 resident bytes, at most 8000, aim 3000"},
		{bar{"idle", "", residentBytes, 8000, 3000}, 8000, "bar met: idle 8000 resident bytes, at most 8000, aim 3000"},
		{bar{"parse", "", allocationsPerRequest, 0, 0}, 0.001, "bar met: parse 0.00 allocations, at most 0.00, aim 0.00"},
		{bar{"parse", "", allocationsPerRequest, 0, 0}, 0.01, "bar MISSED: parse 0.01 allocations, at most 0.00, aim 0.00"},
	}
	for _, row := range rows {
		if got := (verdict{row.bar, row.figure}).String(); got != row.want {
			t.Errorf("%v: %s, want %s", row, got, row.want)
		}
	}
}

func TestEveryBarIsAboutAScenario(t *testing.T) {
	for _, b := range bars {
		scenarioNamed(t, b.scenario)
	}
}

// The cycles that the bars were agreed for.
func TestEveryCycleHasItsBars(t *testing.T) {
	for _, name := range []string{"get", "post", "10-fields", "browser"} {
		for _, depth := range []string{"", "-16"} {
			for _, answer := range []string{"", "-json"} {
				cycle := "cycle-" + name + depth + answer
				for _, want := range []bar{{cycle, fasthttp, timesCheaper, 1.5, 5}, {cycle, netHTTP, timesCheaper, 16, 60}} {
					if !slices.Contains(bars, want) {
						t.Errorf("%s has no bar against %s", cycle, want.against)
					}
				}
			}
		}
	}
}

func TestOneMissedBarDecides(t *testing.T) {
	list := []verdict{{bars[0], bars[0].aim}, {bars[1], bars[1].least - 0.01}, {bars[2], bars[2].aim}}
	if writeVerdicts(io.Discard, list) {
		t.Error("passed with a bar missed")
	}
}
