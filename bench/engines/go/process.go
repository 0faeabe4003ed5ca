package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A process is an engine serving in a process of its own, so that its processor time and memory can be measured apart.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	address string
}

// start runs this program again in the role of a server, on the core that is for servers. It writes its own profile
// unless profile is "".
func start(e *engine, profile string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "-serve", e.name, "-profile", profile)}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(stdout)
	if err := p.startPinned(); err != nil {
		return nil, err
	}
	_, err = fmt.Fscanln(p.stdout, &p.address)
	return p, err
}

// A child inherits the cores of the thread that starts it.
func (p *process) startPinned() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := pin(serverCore)
	if err != nil {
		return err
	}
	defer unpin()
	return p.cmd.Start()
}

// stop ends the server: it serves as long as its input is open.
func (p *process) stop() error {
	_ = p.stdin.Close()
	return p.cmd.Wait()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// live is the heap and the stacks that are in use right after a collection, in bytes.
func (p *process) live() (data int, err error) {
	if _, err := fmt.Fprintln(p.stdin, "live"); err != nil {
		return 0, err
	}
	_, err = fmt.Fscanln(p.stdout, &data)
	return data, err
}

// resident is the memory of the process that is in RAM, in bytes.
func (p *process) resident() (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid()))
	if err != nil {
		return 0, err
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, err
	}
	return pages * os.Getpagesize(), nil
}

// serve is the role of a server: it tells its address, then obeys its input until that ends.
func serve(name, profile string) error {
	e, err := engineNamed(name)
	if err != nil {
		return err
	}
	stop, err := startProfile(profile)
	if err != nil {
		return err
	}
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	failed := make(chan error, 1)
	go func() { failed <- e.listen(l) }()
	go obey(failed)
	return <-failed
}

func obey(ended chan<- error) {
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		if strings.TrimSpace(commands.Text()) == "live" {
			fmt.Println(liveBytes())
		}
	}
	ended <- commands.Err()
}

// Two collections: the first one only empties the pools into their second half.
func liveBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc + stats.StackInuse
}

func engineNamed(name string) (*engine, error) {
	for _, e := range engines {
		if e.name == name {
			return e, nil
		}
	}
	return nil, fmt.Errorf("no engine is named %q", name)
}
