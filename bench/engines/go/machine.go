package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A machine is what the figures depend on besides the programs.
type machine struct {
	// date is UTC, as 2026-01-31.
	date, model, kernel string
	cores               int
	// congestionControl is how TCP paces what it sends.
	congestionControl string
}

func thisMachine() machine {
	return machine{
		date:              time.Now().UTC().Format(time.DateOnly),
		model:             model(),
		kernel:            setting("kernel/osrelease"),
		cores:             runtime.NumCPU(),
		congestionControl: setting("net/ipv4/tcp_congestion_control"),
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %s, %d cores, Linux %s, TCP %s, %s",
		m.date, m.model, m.cores, m.kernel, m.congestionControl, runtime.Version())
}

// fileName is the date and the machine in letters that any file system takes, as for the results of the proxies.
func (m machine) fileName() string {
	plain := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return ' '
	}, strings.ToLower(m.model))
	return fmt.Sprintf("%s-%s-%d-cores-go.csv", m.date, strings.Join(strings.Fields(plain), "-"), m.cores)
}

func model() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(strings.ReplaceAll(value, "(R)", ""))
		}
	}
	return runtime.GOARCH
}

func setting(name string) string {
	text, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(text))
}

// warnWhenBusy says that figures will be noisy when other programs run.
func warnWhenBusy() {
	const busy = 0.7
	var lastMinute float64
	text, _ := os.ReadFile("/proc/loadavg")
	if _, err := fmt.Sscan(string(text), &lastMinute); err == nil && lastMinute > busy {
		fmt.Fprintf(os.Stderr, "warning: other programs are running (load average %.2f): figures will be noisy\n", lastMinute)
	}
}

// benchFolder is the folder bench, in which results and short runs have theirs. This program runs in its own folder.
func benchFolder() (string, error) {
	folder, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(folder, "results")); err != nil {
		return "", fmt.Errorf("to be run in bench/engines/go: %w", err)
	}
	return folder, nil
}
