package main

import (
	"strings"
	"testing"
)

func TestEveryScenarioRunsOnEveryEngine(t *testing.T) {
	for i := range scenarios {
		t.Run(scenarios[i].name, func(t *testing.T) {
			r, err := small(scenarios[i]).run(honest, tiny)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range r.rows {
				if len(row.costs) == 0 {
					t.Errorf("%s has no figure", row.engine.name)
				}
			}
			if r.row(subject) == nil || r.row(fasthttp) == nil {
				t.Error("an engine is missing")
			}
			if r.row(netHTTP) == nil && !strings.HasPrefix(r.scenario.name, "write") {
				t.Error("net/http is missing")
			}
		})
	}
}

// honest are the engines but the lying one.
var honest = engines[:len(engines):len(engines)]
