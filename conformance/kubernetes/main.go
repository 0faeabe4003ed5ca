// Command kubernetes runs a command next to an API server, its etcd and what stands in for the rest of a cluster, with
// Gateway API's definitions installed: go run . COMMAND [ARGUMENT]... The command finds the API server by KUBECONFIG.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"titan.test/kubernetes/cluster"
	"titan.test/kubernetes/standin"
)

// grace is how long the command has to end by itself.
const grace = 4 * time.Second

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . COMMAND [ARGUMENT]...")
		os.Exit(2)
	}
	os.Exit(cluster.Inside(func() int { return run(os.Args[1], os.Args[2:]...) }))
}

// run returns the exit status of the command.
func run(program string, arguments ...string) int {
	err := runCommand(program, arguments)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		return 1
	}
	return 0
}

func runCommand(program string, arguments []string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	// A terminal interrupts the command as well, and that may want to stay.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	started, err := cluster.Start(os.TempDir())
	if err != nil {
		return err
	}
	defer started.Stop()
	if err := cluster.InstallGatewayAPI(started.Config); err != nil {
		return err
	}
	pods, err := standin.Start(started.Config, os.TempDir())
	if err != nil {
		return err
	}
	defer pods.Stop()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = grace
	command.Env = append(os.Environ(), "KUBECONFIG="+started.Kubeconfig)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	return command.Run()
}
