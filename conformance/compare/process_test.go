package compare

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// serves names, in the environment of a process of this test's own, the engine and the row that it is to serve.
const serves = "COMPARE_SERVES"

func TestMain(m *testing.M) {
	if what := os.Getenv(serves); what != "" {
		name, row, _ := strings.Cut(what, " ")
		if err := serveProcess(name, row); err != nil {
			fmt.Println(err)
		}
		return
	}
	os.Exit(m.Run())
}

// serveProcess prints its address and serves until the process ends.
func serveProcess(name, about string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	for _, engine := range engines {
		for _, row := range rows {
			if engine.name == name && row.name == about {
				return engine.serve(listener, row.handle)
			}
		}
	}
	return fmt.Errorf("no row %s for %s", about, name)
}

// askProcess is ask for a handler that may end the process.
func askProcess(t *testing.T, engine engine, row row) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	process := exec.CommandContext(ctx, os.Args[0])
	process.Env = append(os.Environ(), serves+"="+engine.name+" "+row.name)
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var failure strings.Builder
	process.Stderr = &failure
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, &failure)
	}
	got := askAt(t, strings.TrimSpace(address), engine, row)
	if got != "closes without a response" {
		cancel()
	}
	if err := process.Wait(); err == nil || !strings.HasPrefix(failure.String(), "panic: ") {
		return got
	}
	return dies
}

func TestAnEngineThatLivesOnIsNotTakenForDead(t *testing.T) {
	row := rows[slices.IndexFunc(rows, func(row row) bool { return row.name == "panic" })]
	if got := askProcess(t, engines[0], row); got != row.shockwave {
		t.Errorf("%s, want %s", got, row.shockwave)
	}
}
