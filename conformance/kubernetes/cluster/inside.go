// Package cluster starts a Kubernetes API server with its etcd, and nothing else of a cluster, for the time of a test.
package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The addresses within the network namespace. EndpointSlices may not name loopback addresses, so pods have others; those
// of RFC 2544 are for tests and belong to nobody.
const (
	// NodeAddress is where the stand-in for the kubelet is, and the address that pods see clients come from.
	NodeAddress = "198.18.0.1"
	// PodPrefix begins the address of every pod: two numbers follow.
	PodPrefix = "198.18."
	// Bridge is the link that pods are joined by.
	Bridge = "pods"

	serviceAddresses = "198.19.0.0/16"
	// serviceAddress is the first of them, which the API server takes for itself.
	serviceAddress = "198.19.0.1"
)

const (
	// insideMark is set in the environment of the process that Inside has started.
	insideMark = "TITAN_CLUSTER_INSIDE"
	// joinedWithin bounds each run of the program ip.
	joinedWithin = 10 * time.Second
)

// Inside runs this program again in namespaces of its own, where it calls run, and returns the exit status. What run
// starts has a network of its own, with every port free and no way out, and ends with it however it ends: also when this
// program is killed, or the one that has started it. Being root is not needed where the system lets users make namespaces.
func Inside(run func() int) int {
	if os.Getenv(insideMark) != "" {
		if err := prepareNetwork(); err != nil {
			return complain(err)
		}
		return run()
	}
	folder, err := os.MkdirTemp("", "titan-cluster-")
	if err != nil {
		return complain(err)
	}
	defer os.RemoveAll(folder)
	return enter(folder)
}

// enter keeps to one thread: the death of the thread that has started a process counts as its parent's.
func enter(folder string) int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	// `go test` and `go run` do not end what they have started when they are ended themselves.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return complain(err)
	}
	program, err := os.Executable()
	if err != nil {
		return complain(err)
	}
	inner := exec.Command(program, os.Args[1:]...)
	inner.Env = append(os.Environ(), insideMark+"=1", "TMPDIR="+folder)
	inner.Stdin, inner.Stdout, inner.Stderr = os.Stdin, os.Stdout, os.Stderr
	inner.SysProcAttr = namespaces()
	if err := inner.Start(); err != nil {
		return complain(fmt.Errorf("namespaces for network and processes are needed, as root or as a user who may make them: %w", err))
	}
	ended := make(chan struct{})
	go pass(signals, inner.Process, ended)
	err = inner.Wait()
	close(ended)
	if inner.ProcessState == nil {
		return complain(err)
	}
	return inner.ProcessState.ExitCode()
}

// pass hands signals on. The first process of a namespace misses those that come before it is prepared for them, so it
// is killed if it is still there a while later; but what a terminal interrupts may want to stay.
func pass(signals <-chan os.Signal, inner *os.Process, ended <-chan struct{}) {
	var overdue <-chan time.Time
	for {
		select {
		case sent := <-signals:
			inner.Signal(sent)
			if sent != os.Interrupt && overdue == nil {
				overdue = time.After(grace)
			}
		case <-overdue:
			inner.Kill()
		case <-ended:
			return
		}
	}
}

func namespaces() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() == 0 {
		return attributes
	}
	attributes.Cloneflags |= syscall.CLONE_NEWUSER
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return attributes
}

func prepareNetwork() error {
	return IP(
		"link set lo up",
		"link add "+Bridge+" type bridge",
		"addr add "+NodeAddress+"/16 dev "+Bridge,
		"link set "+Bridge+" up",
	)
}

// IP carries out commands of the program ip, in their order, up to the first that fails.
func IP(commands ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), joinedWithin)
	defer cancel()
	batch := exec.CommandContext(ctx, "ip", "-batch", "-")
	batch.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if output, err := batch.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, output)
	}
	return nil
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "cluster:", err)
	return 1
}
