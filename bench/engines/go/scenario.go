package main

import (
	"fmt"
	"slices"
	"time"
)

// A scenario is one row of questions: what does this cost each engine?
type scenario struct {
	name string
	what string
	// One of these says how.
	memory *memoryScenario
	tcp    *tcpScenario
	idle   *idleScenario
}

var scenarios = slices.Concat(
	[]scenario{
		inMemory("parse-get", "read a GET of 78 bytes", parsing(inputGet)),
		inMemory("parse-post", "read a POST with a body of 25 bytes", parsing(inputPost)),
		inMemory("parse-10-fields", "read a GET with 10 fields", parsing(inputFields)),
		inMemory("parse-browser", "read a browser's head of 890 bytes", parsing(inputBrowser)),
		inMemory("parse-64-fields", "read a GET with 64 fields", parsing(inputMany)),
		inMemory("parse-long-value", "read a GET with a value of 2.8 kB", parsing(inputLong)),
		inMemory("write-text", "write a small text", writing(textAnswer)),
		inMemory("write-json", "write small JSON and two more fields", writing(jsonAnswer)),
	},
	cycles(),
	[]scenario{
		inMemory("cycle-64-fields", "whole cycle in memory, 64 fields", cycling(inputMany, 1)),
		{name: "tcp-keep-alive", what: "GET on 64 kept TCP connections", tcp: &tcpScenario{connections: 64, depth: 1}},
		{name: "tcp-pipelined-16", what: "16 GETs at once on 64 kept TCP connections", tcp: &tcpScenario{connections: 64, depth: 16}},
		{name: "idle", what: "memory of an idle TCP connection", idle: &idleScenario{connections: 5000}},
	},
)

// cycled are the requests of the whole cycles, each with the target at which it gets JSON.
var cycled = []struct {
	in         *input
	json, what string
}{
	{inputGet, "/json/id4/0", "a GET"},
	{inputPost, "/json/id4/0", "a POST"},
	{inputFields, "/json/id4/0", "a GET with 10 fields"},
	{inputBrowser, "/json/me/orders?page=2&sort=date&view=0", "a browser's head"},
}

// cycles are each input, one and 16 per read, answered with text and with JSON.
func cycles() []scenario {
	var list []scenario
	for _, c := range cycled {
		for _, depth := range []struct {
			name    string
			perRead int
		}{{"", 1}, {"-16", 16}} {
			name := "cycle-" + c.in.name + depth.name
			what := fmt.Sprintf("whole cycle in memory, %s, %d per read, answered with ", c.what, depth.perRead)
			list = append(list,
				inMemory(name, what+"text", cycling(c.in, depth.perRead)),
				inMemory(name+"-json", what+"JSON", cycling(c.in.to(c.json), depth.perRead)))
		}
	}
	return list
}

func inMemory(name, what string, how memoryScenario) scenario {
	return scenario{name: name, what: what, memory: &how}
}

// An effort is how long a run takes.
type effort struct {
	rounds int
	// turn is the processor time of an engine's turn in memory.
	turn time.Duration
	// warm and long are the warm-up and the measured time of a turn over TCP.
	warm, long time.Duration
	// silent is how long idle connections are silent before the server's memory is looked at.
	silent                time.Duration
	tcpRounds, idleRounds int
	// profile is where a processor profile goes, "" for none.
	profile string
}

var (
	full = effort{
		rounds: 15, turn: 60 * time.Millisecond,
		tcpRounds: 5, warm: 500 * time.Millisecond, long: 2 * time.Second,
		idleRounds: 3, silent: 5 * time.Second,
	}
	quick = effort{
		rounds: 3, turn: 20 * time.Millisecond,
		tcpRounds: 1, warm: 200 * time.Millisecond, long: 500 * time.Millisecond,
		idleRounds: 1, silent: time.Second,
	}
)

// serverProfile is where a server process puts its profile, beside that of this process.
func (how effort) serverProfile() string {
	if how.profile == "" {
		return ""
	}
	return how.profile + ".server"
}

// A row is one engine's figures in one scenario.
type row struct {
	engine *engine
	// costs are nanoseconds of processor time per operation, or bytes per connection, a round each.
	costs []float64
	// allocations per operation; negative where they are not counted.
	allocations float64
	// rates are answers per second over TCP.
	rates []float64
	// live are bytes per idle connection after a collection.
	live []float64
	// operation is done turn times in a turn in memory.
	operation *operation
	turn      int
}

func (r *row) cost() float64 { return median(r.costs) }

// A result is a scenario with what came of it.
type result struct {
	scenario *scenario
	rows     []*row
}

// row finds an engine's figures, nil when it is not in them.
func (r *result) row(engine string) *row {
	for _, row := range r.rows {
		if row.engine.name == engine {
			return row
		}
	}
	return nil
}

// times says how many times what this engine costs another one does: the median of the ratios within rounds, so that
// what slows a whole round down cancels out. It is 0 where one of the two has no figures.
func (r *result) times(engine, other string) float64 {
	one, another := r.row(engine), r.row(other)
	if one == nil || another == nil {
		return 0
	}
	var ratios []float64
	for i := range one.costs {
		ratios = append(ratios, another.costs[i]/one.costs[i])
	}
	return median(ratios)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// run measures the scenario. In each round every engine has a turn, and each round begins with another engine.
func (s *scenario) run(engines []*engine, how effort) (*result, error) {
	switch {
	case s.memory != nil:
		return s.runInMemory(engines, how)
	case s.tcp != nil:
		return s.inTurn(listening(engines), how.tcpRounds, func(r *row) error {
			cost, rate, err := s.tcp.measure(r.engine, how)
			r.costs, r.rates = append(r.costs, cost), append(r.rates, rate)
			return err
		})
	default:
		return s.inTurn(listening(engines), how.idleRounds, func(r *row) error {
			resident, live, err := s.idle.measure(r.engine, how)
			r.costs, r.live = append(r.costs, resident), append(r.live, live)
			return err
		})
	}
}

func listening(engines []*engine) []*row {
	var rows []*row
	for _, e := range engines {
		if e.listen != nil {
			rows = append(rows, &row{engine: e, allocations: -1})
		}
	}
	return rows
}

func (s *scenario) runInMemory(engines []*engine, how effort) (*result, error) {
	var rows []*row
	for _, e := range engines {
		r, err := s.prepare(e, how)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", s.name, e.name, err)
		}
		if r != nil {
			rows = append(rows, r)
		}
	}
	return s.inTurn(rows, how.rounds, func(r *row) error {
		cost, err := r.operation.cost(r.turn)
		r.costs = append(r.costs, cost)
		return err
	})
}

// prepare finds how many operations make a turn, and counts their allocations; nil when the engine has no part in this.
func (s *scenario) prepare(e *engine, how effort) (*row, error) {
	o, err := s.memory.operation(e)
	if err != nil || o == nil {
		return nil, err
	}
	r := &row{engine: e, operation: o}
	if r.turn, err = calibrate(o.run, how.turn); err != nil {
		return nil, err
	}
	// Behind calibrate: pools that learn from use have learnt this one by now.
	r.allocations, err = allocations(o.run, r.turn)
	return r, err
}

// inTurn is the rounds.
func (s *scenario) inTurn(rows []*row, rounds int, turn func(*row) error) (*result, error) {
	for round := range rounds {
		for i := range rows {
			r := rows[(round+i)%len(rows)]
			if err := turn(r); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", s.name, r.engine.name, err)
			}
		}
	}
	return &result{s, rows}, nil
}
