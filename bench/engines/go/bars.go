package main

import (
	"fmt"
	"io"
)

// A bar is what one of Shockwave's figures has to reach.
type bar struct {
	scenario string
	// against is the engine that a ratio is to; "" for figures that stand by themselves.
	against string
	measure measure
	// least is passed or missed; aim is where it should go. For ratios more is better, for the others less.
	least, aim float64
}

type measure int

const (
	timesCheaper measure = iota
	residentBytes
	allocationsPerRequest
)

var bars = barList()

func barList() []bar {
	var list []bar
	add := func(against string, least, aim float64, scenarios ...string) {
		for _, scenario := range scenarios {
			list = append(list, bar{scenario, against, timesCheaper, least, aim})
		}
	}
	add(fasthttp, 1.5, 2.5, "parse-get", "parse-post", "parse-10-fields", "parse-browser")
	add(netHTTP, 16, 22, "parse-get", "parse-post", "parse-10-fields")
	add(netHTTP, 12, 22, "parse-browser")
	add(fasthttp, 2, 3.5, "write-text", "write-json")
	for _, s := range cycles() {
		add(fasthttp, 1.5, 5, s.name)
		add(netHTTP, 16, 60, s.name)
	}
	add(fasthttp, 1.0, 1.05, "tcp-keep-alive")
	add(netHTTP, 1.55, 1.7, "tcp-keep-alive")
	add(fasthttp, 1.1, 1.25, "tcp-pipelined-16")
	add(netHTTP, 12, 15, "tcp-pipelined-16")
	list = append(list, bar{"idle", "", residentBytes, 8000, 3000})
	for i := range scenarios {
		if scenarios[i].memory != nil {
			list = append(list, bar{scenarios[i].name, "", allocationsPerRequest, 0, 0})
		}
	}
	return list
}

// A verdict is a bar with the figure that was reached.
type verdict struct {
	bar    bar
	figure float64
}

// verdicts judges the results that have the figures a bar is about.
func verdicts(results []*result) []verdict {
	var list []verdict
	for _, b := range bars {
		for _, r := range results {
			if r.scenario.name != b.scenario || r.row(subject) == nil {
				continue
			}
			if b.against == "" || r.row(b.against) != nil {
				list = append(list, verdict{b, b.figure(r)})
			}
		}
	}
	return list
}

func (b bar) figure(r *result) float64 {
	switch b.measure {
	case timesCheaper:
		return r.times(subject, b.against)
	case allocationsPerRequest:
		return r.row(subject).allocations
	default:
		return r.row(subject).cost()
	}
}

// stray is how many allocations per request are the runtime's: a background goroutine of the process allocates now and
// then while requests are counted.
const stray = 0.005

func (v verdict) reaches(goal float64) bool {
	switch v.bar.measure {
	case timesCheaper:
		return v.figure >= goal
	case allocationsPerRequest:
		return v.figure < goal+stray
	default:
		return v.figure <= goal
	}
}

// String begins as the verdicts of the harness for Titan do: `make validate` reads both.
func (v verdict) String() string {
	word := "MISSED"
	if v.reaches(v.bar.least) {
		word = "met"
	}
	format := [...]string{
		timesCheaper:          "%.2fx cheaper than " + v.bar.against + ", at least %.2fx, aim %.2fx",
		residentBytes:         "%.0f resident bytes, at most %.0f, aim %.0f",
		allocationsPerRequest: "%.2f allocations, at most %.2f, aim %.2f",
	}[v.bar.measure]
	return fmt.Sprintf("bar %s: %s "+format, word, v.bar.scenario, v.figure, v.bar.least, v.bar.aim)
}

// writeVerdicts prints a line for each bar and says whether all are passed.
func writeVerdicts(w io.Writer, list []verdict) (passed bool) {
	passed = true
	for _, v := range list {
		fmt.Fprintln(w, v)
		passed = passed && v.reaches(v.bar.least)
	}
	return passed
}
