// Package suite runs Gateway API's official conformance suite against a controller.
package suite

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance"
	official "sigs.k8s.io/gateway-api/conformance/utils/suite"

	"titan.test/kubernetes/cluster"
	"titan.test/kubernetes/standin"
)

// The suite has flags of its own besides: -conformance-options-file, -gateway-class, -report-output, -run-test ...
var (
	controller     = flag.String("controller", "", "the command that starts the controller, split at blanks; {kubeconfig} becomes a path")
	controllerName = flag.String("controller-name", "titan.test/gateway", "what the GatewayClass names as its controller")
	controllerLog  = flag.String("controller-log", "", "the file that gets what the controller prints; otherwise it is printed")
)

const (
	// optionsFile is read where no other one is given.
	optionsFile = "options.yaml"
	// grace is how long the controller has to end by itself.
	grace = 10 * time.Second
)

func TestMain(m *testing.M) {
	if err := flag.Set("conformance-options-file", optionsFile); err != nil {
		panic(err)
	}
	flag.Parse()
	os.Exit(cluster.Inside(m.Run))
}

func TestConformance(t *testing.T) {
	if *controller == "" {
		t.Skip("no -controller was given, so there is nothing to test: make conformance-k8s gives one")
	}
	started, options := startGround(t)
	startController(t, started.Kubeconfig)
	conformance.RunConformanceWithOptions(t, options)
}

// startGround starts all that a controller needs, and makes its class.
func startGround(t *testing.T) (*cluster.Cluster, official.ConformanceOptions) {
	t.Helper()
	started, err := cluster.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Stop)
	if err := cluster.InstallGatewayAPI(started.Config); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", started.Kubeconfig)
	// Before the stand-in starts: this adds types to the scheme that all clients of the program have in common.
	options := conformance.DefaultOptions(t)
	pods, err := standin.Start(started.Config, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pods.Stop)
	class := &gateway.GatewayClass{
		ObjectMeta: meta.ObjectMeta{Name: options.GatewayClassName},
		Spec:       gateway.GatewayClassSpec{ControllerName: gateway.GatewayController(*controllerName)},
	}
	if err := options.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	return started, options
}

// startController ends the whole program if the controller ends before the test does.
func startController(t *testing.T, kubeconfig string) {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(*controller, "{kubeconfig}", kubeconfig))
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = grace
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if *controllerLog != "" {
		file, err := os.Create(*controllerLog)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		command.Stdout, command.Stderr = file, file
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := command.Wait(); ctx.Err() == nil {
			// The suite would wait minutes for each of its conditions.
			fmt.Fprintf(os.Stderr, "the controller has ended before the suite: %v\n", err)
			os.Exit(1)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}
