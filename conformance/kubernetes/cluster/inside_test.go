package cluster

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// holding in the environment makes this program hold instead of testing.
const holding = "TITAN_CLUSTER_HOLD"

// hold starts a program, says so, and waits to be ended.
func hold() int {
	command := exec.Command("sleep", "infinity")
	command.Stdout = os.Stdout
	if err := command.Start(); err != nil {
		return complain(err)
	}
	fmt.Println("held")
	command.Wait()
	return 0
}

// Each of the processes has the write end of a pipe: it is closed once none of them is left.
func TestWhatRunsInsideEndsWithItsProgram(t *testing.T) {
	for name, end := range map[string]func(started *os.Process, program int) error{
		"terminated": func(_ *os.Process, program int) error { return syscall.Kill(program, syscall.SIGTERM) },
		"killed":     func(_ *os.Process, program int) error { return syscall.Kill(program, syscall.SIGKILL) },
		"orphaned":   func(started *os.Process, _ int) error { return started.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			started, output, program := holdIn(t, folder)
			if err := end(started, program); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, output); err != nil {
				t.Fatalf("something is left of it: %v", err)
			}
			left, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			// Who is killed removes nothing.
			if name != "killed" && len(left) > 0 {
				t.Errorf("it leaves %v", left)
			}
		})
	}
}

// holdIn starts this program by a shell, and returns the shell, what both print, and the number of the program's process
// once it holds.
func holdIn(t *testing.T, folder string) (*os.Process, io.Reader, int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	t.Cleanup(func() { output.Close() })
	if err := output.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	command := exec.Command("sh", "-c", `"$0" & echo $!; wait`, program)
	command.Env = append(os.Environ(), insideMark+"=", holding+"=1", "TMPDIR="+folder)
	command.Stdout, command.Stderr = theirs, theirs
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		command.Wait()
	})
	lines := bufio.NewReader(output)
	var number int
	var said string
	if _, err := fmt.Fscanln(lines, &number); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(lines, &said); err != nil || said != "held" {
		t.Fatalf("it says %q: %v", said, err)
	}
	return command.Process, lines, number
}
