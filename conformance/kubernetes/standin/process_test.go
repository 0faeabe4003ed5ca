package standin

import (
	"os"
	"testing"
	"time"

	"titan.test/kubernetes/cluster"
)

// path is where the programs are that join a pod to the bridge.
var path = "PATH=" + os.Getenv("PATH")

// runEcho runs an echo server as the pod of that name, and returns when it listens.
func runEcho(t *testing.T, kubelet *kubelet, pod string) *process {
	t.Helper()
	number, address, err := nextAddress()
	if err != nil {
		t.Fatal(err)
	}
	started, err := kubelet.run(number, address, []string{kubelet.echo}, []string{path, "POD_NAME=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		started.kill()
		awaitEnd(t, started)
	})
	ready := make(chan struct{}, 1)
	go started.awaitReady(echoPort, func() { ready <- struct{}{} })
	select {
	case <-ready:
	case <-started.ended:
		t.Fatalf("it has ended: %s", started.log.last())
	case <-time.After(patience):
		t.Fatal("it does not listen")
	}
	return started
}

func awaitEnd(t *testing.T, process *process) {
	t.Helper()
	select {
	case <-process.ended:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

func TestTwoPodsListenAtTheSamePort(t *testing.T) {
	echo, err := cluster.Program("echo-basic")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := newKubelet(echo, t.TempDir(), nil, func() {})
	first, second := runEcho(t, kubelet, "first"), runEcho(t, kubelet, "second")
	for name, process := range map[string]*process{"first": first, "second": second} {
		if said := askEcho(t, process.address); said.Pod != name {
			t.Errorf("%s is the pod %s", process.address, said.Pod)
		}
	}
	first.end(time.Minute)
	awaitEnd(t, first)
	if first.isReady() || !second.isReady() {
		t.Error("the wrong one has ended")
	}
}

func TestAProgramThatFailsSaysWhy(t *testing.T) {
	kubelet := newKubelet("", t.TempDir(), nil, func() {})
	number, address, err := nextAddress()
	if err != nil {
		t.Fatal(err)
	}
	failing, err := kubelet.run(number, address, []string{"sh", "-c", "echo no port is free; exit 1"}, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, failing)
	if failing.log.last() != "no port is free" {
		t.Errorf("it said: %s", failing.log.last())
	}
}

func TestALogIsAskedForByTime(t *testing.T) {
	log := &podLog{}
	log.Write([]byte("whole\nbeg"))
	log.Write([]byte("un\n"))
	if lines := log.since(time.Now()); len(lines) != 2 || lines[1] != "begun" {
		t.Errorf("%q", lines)
	}
	if lines := log.since(time.Now().Add(time.Minute)); len(lines) != 0 {
		t.Errorf("%q are not of that time", lines)
	}
}
