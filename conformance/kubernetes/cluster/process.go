package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// grace is how long a process has to end by itself.
const grace = 5 * time.Second

// A process writes what it has to say to a file, for whoever wants to know why it has ended.
type process struct {
	name  string
	log   string
	state *exec.Cmd
	// ended is closed when the process is no more.
	ended chan struct{}
}

func start(log, program string, arguments ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = file, file
	if err := command.Start(); err != nil {
		return nil, err
	}
	process := &process{filepath.Base(program), log, command, make(chan struct{})}
	go func() {
		defer close(process.ended)
		command.Wait()
	}()
	return process, nil
}

func (p *process) stop() {
	p.state.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(grace):
		p.state.Process.Kill()
		<-p.ended
	}
}

// failure tells what the process said last.
func (p *process) failure(what string) error {
	said, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
	last := lines[max(0, len(lines)-20):]
	return fmt.Errorf("%s %s:\n%s", p.name, what, bytes.Join(last, []byte("\n")))
}
