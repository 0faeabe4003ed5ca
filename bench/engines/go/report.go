package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"
)

// writeTable prints a scenario's figures.
func (r *result) writeTable(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n", r.scenario.name, r.scenario.what)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, r.header())
	for _, row := range r.rows {
		fmt.Fprintln(table, r.line(row))
	}
	_ = table.Flush()
}

func (r *result) header() string {
	switch {
	case r.scenario.memory != nil:
		return "engine\tcpu ns/op\tshockwave is\tallocations/op\t"
	case r.scenario.tcp != nil:
		return "engine\tcpu ns/op\tshockwave is\tanswers/s\t"
	default:
		return "engine\tresident bytes\tshockwave is\tlive bytes\t"
	}
}

func (r *result) line(row *row) string {
	last := fmt.Sprintf("%.2f", row.allocations)
	switch {
	case r.scenario.tcp != nil:
		last = fmt.Sprintf("%.0f", median(row.rates))
	case r.scenario.idle != nil:
		last = fmt.Sprintf("%.0f", median(row.live))
	}
	times := ""
	if r.row(subject) != nil {
		times = fmt.Sprintf("%.2fx cheaper", r.times(subject, row.engine.name))
	}
	return fmt.Sprintf("%s\t%.1f\t%s\t%s\t", row.engine.name, row.cost(), times, last)
}

var columns = []string{
	"date", "machine", "cores", "kernel", "congestion_control", "scenario", "engine", "version", "rounds",
	"cpu_ns_per_request", "allocations_per_request", "idle_bytes_per_connection", "idle_live_bytes_per_connection",
	"to_fasthttp", "to_net_http", "requests_per_second",
}

// writeCSV writes the figures as a file for machines: a line for each engine in each scenario. The ratios are this
// engine's cost in the other one's.
func writeCSV(path string, m machine, results []*result) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := csv.NewWriter(file)
	_ = w.Write(columns)
	for _, r := range results {
		for _, row := range r.rows {
			_ = w.Write(r.record(m, row))
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	return file.Close()
}

func (r *result) record(m machine, row *row) []string {
	var cost, allocations, resident, live, rate string
	switch {
	case r.scenario.memory != nil:
		cost, allocations = decimal(row.cost(), 1), decimal(row.allocations, 2)
	case r.scenario.tcp != nil:
		cost, rate = decimal(row.cost(), 1), decimal(median(row.rates), 0)
	default:
		resident, live = decimal(row.cost(), 0), decimal(median(row.live), 0)
	}
	return []string{
		m.date, m.model, strconv.Itoa(m.cores), m.kernel, m.congestionControl,
		r.scenario.name, row.engine.name, row.engine.version(), strconv.Itoa(len(row.costs)),
		cost, allocations, resident, live,
		r.ratio(row, fasthttp), r.ratio(row, netHTTP), rate,
	}
}

// ratio is empty without the other engine's figures.
func (r *result) ratio(row *row, to string) string {
	times := r.times(to, row.engine.name)
	if times == 0 {
		return ""
	}
	return decimal(times, 3)
}

func decimal(value float64, digits int) string { return strconv.FormatFloat(value, 'f', digits, 64) }
