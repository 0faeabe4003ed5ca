package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// A memoryScenario needs no socket: an engine's part of it runs in this process.
type memoryScenario struct {
	// operation makes that part, after having looked at every byte of the engine's first responses. It is nil where the
	// engine has no such entry.
	operation func(*engine) (*operation, error)
}

// An operation is done n times and returns an error when one of the responses was wrong.
type operation struct {
	run func(n int) error
	// besides is what run does besides what is to be measured: its cost is taken off.
	besides []func(n int) error
}

// cost is the nanoseconds of processor time of one among n.
func (o *operation) cost(n int) (float64, error) {
	cost, err := timed(o.run, n)
	for _, besides := range o.besides {
		if err != nil {
			return 0, err
		}
		var off time.Duration
		off, err = timed(besides, n)
		cost -= off
	}
	return float64(cost) / float64(n), err
}

// parsing reads one request for each operation.
func parsing(in *input) memoryScenario {
	return memoryScenario{func(e *engine) (*operation, error) {
		if e.parse == nil {
			return nil, nil
		}
		reading := e.parse(in)
		if err := reading.run(3); err != nil {
			return nil, err
		}
		return &operation{run: reading.run}, in.check(reading.last())
	}}
}

// check compares what an engine found in the input with what stands there. Names are compared without regard to
// case: some engines rewrite them.
func (in *input) check(found request) error {
	if found.method != in.method || found.target != in.target || found.body != string(in.body) {
		return fmt.Errorf("%s was read as %+v", in.name, found)
	}
	there := map[string]bool{}
	for _, field := range found.fields {
		there[strings.ToLower(field)] = true
	}
	head, _, _ := strings.Cut(string(in.data), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")[1:]
	for _, line := range lines {
		if !there[strings.ToLower(line)] {
			return fmt.Errorf("%s: the field %q was not found in %q", in.name, line, found.fields)
		}
	}
	if len(there) != len(lines) {
		return fmt.Errorf("%s: more fields than there are: %q", in.name, found.fields)
	}
	return nil
}

// cycling serves one request for each operation: read, handled, answered, over one connection for all n.
func cycling(in *input, perRead int) memoryScenario {
	return memoryScenario{func(e *engine) (*operation, error) {
		if e.connection == nil {
			return nil, nil
		}
		return cycle(e.connection(), in, perRead)
	}}
}

func cycle(serve func(*script) error, in *input, perRead int) (*operation, error) {
	expected, _ := answerFor(in.target)
	return checked(expected, 2*len(answerIDs), func(to *sink) func(int) error {
		return func(n int) error { return serve(newScript(in, n, perRead, to)) }
	})
}

// checked is the operation of writing into a sink that has looked at every byte of the first responses.
func checked(expected *answer, first int, write func(*sink) func(int) error) (*operation, error) {
	to := &sink{expected: expected}
	run := write(to)
	if err := run(first); err != nil {
		return nil, err
	}
	if err := to.learn(first); err != nil {
		return nil, err
	}
	return &operation{
		run:     func(n int) error { return to.measure(run, n) },
		besides: []func(int) error{to.compareOnly()},
	}, nil
}

// writing puts one response into a writer for each operation.
func writing(a *answer) memoryScenario {
	return memoryScenario{func(e *engine) (*operation, error) {
		if e.write == nil {
			return nil, nil
		}
		o, err := checked(a, len(answerIDs), func(to *sink) func(int) error { return e.write(a, to) })
		if err == nil && e.besides != nil {
			o.besides = append(o.besides, e.besides(a))
		}
		return o, err
	}}
}

// calibrate finds how many operations take about the given processor time, a multiple of 16.
func calibrate(run func(int) error, want time.Duration) (int, error) {
	n := 16
	for {
		cost, err := timed(run, n)
		if err != nil {
			return 0, err
		}
		if cost*4 >= want {
			scaled := int(float64(n) * float64(want) / float64(cost))
			return max(scaled&^15, 16), nil
		}
		n *= 2
	}
}

// timed is the processor time of n operations. What was allocated before is collected first, so that an engine does
// not pay for what another left behind; from there on the collector runs as it does for users, on the engine's account.
func timed(run func(int) error, n int) (time.Duration, error) {
	runtime.GC()
	before, err := ownCPUTime()
	if err != nil {
		return 0, err
	}
	if err := run(n); err != nil {
		return 0, err
	}
	after, err := ownCPUTime()
	return after - before, err
}

// allocations counts those of one operation among n, enough for what a connection allocates once not to show.
func allocations(run func(int) error, n int) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := run(n); err != nil {
		return 0, err
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), nil
}
