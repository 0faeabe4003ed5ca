// Command engines measures Shockwave beside fasthttp, net/http and hertz: the processor time that a request costs each
// of them. bench/README.md says how, and what the figures mean.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.scenarios, "scenario", "", "only these, separated by commas; a name may end early: parse")
	flag.StringVar(&o.engines, "engine", "", "only these, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 0, "instead of 15 (5 over TCP, 3 with idle connections)")
	flag.BoolVar(&o.quick, "quick", false, "few and short rounds: a look, not a result")
	flag.BoolVar(&o.check, "check", false, "exit with 1 when Shockwave misses a bar")
	flag.StringVar(&o.results, "results", "", "write the results into this folder, not into results/ or .run/")
	flag.StringVar(&o.profile, "profile", "", "write a processor profile to this file, and the server process's to it with .server behind")
	serves := flag.String("serve", "", "for this program's own use: be the server process of this engine")
	flag.Parse()
	err := error(nil)
	if *serves != "" {
		err = serve(*serves, o.profile)
	} else {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	scenarios, engines string
	rounds             int
	quick, check       bool
	results, profile   string
}

// Whole runs are results; what leaves something out stays out of them.
func (o options) whole() bool {
	return o.scenarios == "" && o.engines == "" && o.rounds == 0 && !o.quick && o.profile == ""
}

func (o options) effort() effort {
	how := full
	if o.quick {
		how = quick
	}
	how.profile = o.profile
	if o.rounds > 0 {
		how.rounds, how.tcpRounds, how.idleRounds = o.rounds, o.rounds, o.rounds
	}
	return how
}

func run(o options) error {
	folder, err := benchFolder()
	if err != nil {
		return err
	}
	chosen, measured, err := o.choose()
	if err != nil {
		return err
	}
	stop, err := startProfile(o.profile)
	if err != nil {
		return err
	}
	defer stop()
	m := thisMachine()
	fmt.Println(m)
	warnWhenBusy()
	results, err := measureAll(chosen, measured, o.effort())
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "results", m.fileName())
	switch {
	case o.results != "":
		path = filepath.Join(o.results, m.fileName())
	case !o.whole():
		path = filepath.Join(folder, ".run", "go.csv")
	}
	if err := writeCSV(path, m, results); err != nil {
		return err
	}
	fmt.Println()
	passed := writeVerdicts(os.Stdout, verdicts(results))
	fmt.Println("\nwritten to", path)
	if o.check && !passed {
		return errors.New("a bar is missed")
	}
	return nil
}

func measureAll(chosen []*scenario, measured []*engine, how effort) ([]*result, error) {
	var results []*result
	for _, s := range chosen {
		r, err := s.run(measured, how)
		if err != nil {
			return nil, err
		}
		r.writeTable(os.Stdout)
		results = append(results, r)
	}
	return results, nil
}

func (o options) choose() (chosen []*scenario, measured []*engine, err error) {
	for i := range scenarios {
		if matches(o.scenarios, func(name string) bool { return strings.HasPrefix(scenarios[i].name, name) }) {
			chosen = append(chosen, &scenarios[i])
		}
	}
	for _, e := range engines {
		if matches(o.engines, func(name string) bool { return e.name == name }) {
			measured = append(measured, e)
		}
	}
	if len(chosen) == 0 || len(measured) == 0 {
		return nil, nil, errors.New("no such scenario or engine")
	}
	return chosen, measured, nil
}

// matches says whether one of the listed names is meant; no list means all.
func matches(list string, is func(name string) bool) bool {
	return list == "" || slices.ContainsFunc(strings.Split(list, ","), is)
}

// startProfile samples this process until stop. Without a path it does nothing.
func startProfile(path string) (stop func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}, nil
}
