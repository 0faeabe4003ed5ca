//go:build churn

// Package churn measures what a gateway of a cluster costs while pods come and go: the program TITAN_PROGRAM beside a real API server
// with 100 services of 100 pods, of which 100 a second move. `make cluster-churn` runs it.
package churn

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"titan.test/kubernetes/cluster"
)

const (
	services = 100
	pods     = 100
	// changes is how many slices change in a second.
	changes = 100
	// writing is how many write them.
	writing = 4
	// measured is how long they do.
	measured = 20 * time.Second
	patience = 60 * time.Second
	// most is the share of a core that the thread of the controller may take.
	most = 0.10
)

var running *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Inside(func() int {
		folder, err := os.MkdirTemp("", "")
		if err == nil {
			defer os.RemoveAll(folder)
			running, err = cluster.Start(folder)
		}
		if err == nil {
			defer running.Stop()
			err = cluster.InstallGatewayAPI(running.Config)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

const ground = `
- apiVersion: gateway.networking.k8s.io/v1
  kind: GatewayClass
  metadata: { name: titan }
  spec: { controllerName: titan.test/gateway }
- apiVersion: gateway.networking.k8s.io/v1
  kind: Gateway
  metadata: { name: edge, namespace: default }
  spec: { gatewayClassName: titan, listeners: [{ name: http, port: 80, protocol: HTTP }] }
`

const route = `
- apiVersion: gateway.networking.k8s.io/v1
  kind: HTTPRoute
  metadata: { name: %[1]s, namespace: default }
  spec:
    parentRefs: [{ name: edge }]
    hostnames: [%[1]s.example.com]
    rules: [{ backendRefs: [{ name: %[1]s, port: 80 }] }]
`

func create(t *testing.T, api client.Client, text string) {
	t.Helper()
	var objects []map[string]any
	if err := yaml.Unmarshal([]byte(text), &objects); err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := api.Create(t.Context(), &unstructured.Unstructured{Object: object}); err != nil {
			t.Fatal(err)
		}
	}
}

// slice is where the pods of a service are; with each round one of them is elsewhere.
func slice(service, port, round int) *discovery.EndpointSlice {
	name, number, ready := fmt.Sprintf("s%03d", service), int32(port), true
	made := &discovery.EndpointSlice{
		ObjectMeta:  meta.ObjectMeta{Name: name + "-1", Namespace: "default", Labels: map[string]string{discovery.LabelServiceName: name}},
		AddressType: discovery.AddressTypeIPv4,
		Ports:       []discovery.EndpointPort{{Port: &number}},
	}
	for pod := range pods {
		address := fmt.Sprintf("10.%d.%d.%d", service, pod, 1+round%200)
		// The first service is asked meanwhile: its pods stay.
		if service == 0 {
			address = cluster.NodeAddress
		} else if pod != round%pods {
			address = fmt.Sprintf("10.%d.%d.201", service, pod)
		}
		made.Endpoints = append(made.Endpoints, discovery.Endpoint{
			Addresses: []string{address}, Conditions: discovery.EndpointConditions{Ready: &ready},
		})
		if service == 0 {
			break
		}
	}
	return made
}

// folderOf is that of a process of this namespace: /proc has the numbers of another one.
func folderOf(t *testing.T, process int) string {
	t.Helper()
	own, _ := os.Readlink("/proc/self/ns/pid")
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		namespace, _ := os.Readlink(folder + "/ns/pid")
		status, _ := os.ReadFile(folder + "/status")
		if namespace == own && strings.Contains(string(status), fmt.Sprintf("\t%d\nNSpgid:", process)) {
			return folder
		}
	}
	t.Fatalf("no process %d", process)
	return ""
}

// times are how much of a core each thread of a process has used, by its name and number.
func times(t *testing.T, process int) map[string]time.Duration {
	t.Helper()
	used := map[string]time.Duration{}
	threads, _ := filepath.Glob(folderOf(t, process) + "/task/*/stat")
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), "(")
		name, rest, _ := strings.Cut(rest, ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			continue
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		// In hundredths of a second (proc(5), `sysconf(_SC_CLK_TCK)`).
		used[name+" "+filepath.Base(filepath.Dir(file))] = time.Duration(user+system) * 10 * time.Millisecond
	}
	if len(used) == 0 {
		t.Fatal("the process has no threads")
	}
	return used
}

func start(t *testing.T) (process int, log string) {
	t.Helper()
	folder := t.TempDir()
	settings, log := filepath.Join(folder, "titan.yaml"), filepath.Join(folder, "log")
	if err := os.WriteFile(settings, []byte("workers: 1\nadmin: { address: '127.0.0.1:8484' }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(folder, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Getenv("TITAN_PROGRAM"), "kubernetes", "--kubeconfig", running.Kubeconfig, "--address", "127.64.0.0/16",
		"--directory", state, settings)
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command.Process.Pid, log
}

// ask sends a request to the first service.
func ask(client *http.Client, address string) error {
	request, err := http.NewRequest("GET", "http://"+address, nil)
	if err != nil {
		return err
	}
	request.Host = "s000.example.com"
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != 200 {
		return fmt.Errorf("%d %s", response.StatusCode, body)
	}
	return nil
}

// asked has the times that requests take, one every few milliseconds, until the context ends.
func asked(ctx context.Context, t *testing.T, client *http.Client, address string) (took []time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			slices.Sort(took)
			return took
		case <-tick.C:
			begun := time.Now()
			if err := ask(client, address); err != nil {
				t.Errorf("a request fails: %v", err)
				return took
			}
			took = append(took, time.Since(begun))
		}
	}
}

func TestPodsThatMoveCostLittle(t *testing.T) {
	listener, err := net.Listen("tcp", cluster.NodeAddress+":0")
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
	port := listener.Addr().(*net.TCPAddr).Port

	api, err := client.New(running.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	typed, err := kubernetes.NewForConfig(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, api, ground)
	for service := range services {
		name := fmt.Sprintf("s%03d", service)
		create(t, api, fmt.Sprintf(route, name))
		spec := core.ServiceSpec{Ports: []core.ServicePort{{Port: 80}}}
		object := &core.Service{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
		if _, err := typed.CoreV1().Services("default").Create(t.Context(), object, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		pods := slice(service, port, 0)
		if _, err := typed.DiscoveryV1().EndpointSlices("default").Create(t.Context(), pods, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	process, log := start(t)
	address := awaitAddress(t, api, log)

	plain := &http.Client{Timeout: patience}
	still, done := context.WithTimeout(t.Context(), measured/4)
	quiet := asked(still, t, plain, address)
	done()

	before, begun := times(t, process), time.Now()
	moving, done := context.WithTimeout(t.Context(), measured)
	defer done()
	var writers sync.WaitGroup
	for writer := range writing {
		writers.Go(func() { move(moving, t, typed, writer) })
	}
	direct := make(chan []time.Duration, 1)
	go func() { direct <- asked(moving, t, &http.Client{Timeout: patience}, listener.Addr().String()) }()
	busy := asked(moving, t, plain, address)
	writers.Wait()
	elapsed := time.Since(begun)
	for thread, used := range times(t, process) {
		share := float64(used-before[thread]) / float64(elapsed)
		if share > 0.001 {
			t.Logf("%-24s %5.1f %% of a core", thread, 100*share)
		}
		if share > most && !strings.HasPrefix(thread, "titan-") {
			t.Errorf("%s takes more than %.0f %%", thread, 100*most)
		}
	}
	// The API server and its clients want the same cores: what that does to a request without Titan is its own line.
	for _, it := range []struct {
		name string
		took []time.Duration
	}{{"still", quiet}, {"moving", busy}, {"moving, without Titan", <-direct}} {
		if len(it.took) > 0 {
			t.Logf("%-21s %d requests, p50 %v, p99 %v", it.name, len(it.took), it.took[len(it.took)/2], it.took[len(it.took)*99/100])
		}
	}
}

// move changes the slices of one writer, one after another, until the context ends.
func move(ctx context.Context, t *testing.T, typed *kubernetes.Clientset, writer int) {
	tick := time.NewTicker(time.Second * writing / changes)
	defer tick.Stop()
	written := 0
	for round := 1; ; round++ {
		for service := 1 + writer; service < services; service += writing {
			select {
			case <-ctx.Done():
				t.Logf("%d changes", written)
				return
			case <-tick.C:
			}
			_, err := typed.DiscoveryV1().EndpointSlices("default").Update(ctx, slice(service, 8080, round), meta.UpdateOptions{})
			if err != nil && ctx.Err() == nil {
				t.Errorf("a slice cannot be written: %v", err)
				return
			}
			written++
		}
	}
}

func awaitAddress(t *testing.T, api client.Client, log string) string {
	t.Helper()
	overdue := time.Now().Add(patience)
	for {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("gateway.networking.k8s.io/v1")
		object.SetKind("Gateway")
		err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "edge"}, object)
		addresses, _, _ := unstructured.NestedSlice(object.Object, "status", "addresses")
		if err == nil && len(addresses) == 1 {
			address := addresses[0].(map[string]any)["value"].(string) + ":80"
			if err = ask(&http.Client{Timeout: patience}, address); err == nil {
				return address
			}
		}
		if time.Now().After(overdue) {
			told, _ := os.ReadFile(log)
			t.Fatalf("it does not serve: %v\n%s", err, told)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
