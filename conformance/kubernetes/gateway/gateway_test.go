// Package gateway tests Titan as the gateway of a cluster, with no more rights than its Helm chart gives it: the program
// TITAN_PROGRAM beside a real API server.
package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"titan.test/kubernetes/cluster"
)

const (
	// patience bounds every wait.
	patience = 30 * time.Second
	// every is how long to wait between two looks.
	every = 20 * time.Millisecond
	// account is the user that the gateway is.
	account = "titan"
	// probes is where Titan says whether it is ready.
	probes = "127.0.0.1:9902"
)

var (
	// running is the API server of all tests.
	running *cluster.Cluster
	// api is an administrator's client of it.
	api client.Client
	// kubeconfig is that of the account.
	kubeconfig string
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Inside(func() int {
		folder, err := os.MkdirTemp("", "")
		if err == nil {
			defer os.RemoveAll(folder)
			running, err = cluster.Start(folder)
		}
		if err == nil {
			defer running.Stop()
			err = prepare()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// prepare installs Gateway API, gives the account its rights, and has a service whose only pod is this process.
func prepare() (err error) {
	if err := cluster.InstallGatewayAPI(running.Config); err != nil {
		return err
	}
	if err := installTitanPolicy(); err != nil {
		return err
	}
	if api, err = client.New(running.Config, client.Options{}); err != nil {
		return err
	}
	if kubeconfig, err = running.UserKubeconfig(account); err != nil {
		return err
	}
	if err := grantRights(); err != nil {
		return err
	}
	port, err := respond()
	if err != nil {
		return err
	}
	return apply(context.Background(), fmt.Sprintf(ground, port, cluster.NodeAddress, port))
}

// ground is what all tests stand on.
const ground = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: titan }
spec: { controllerName: titan.test/gateway }
---
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: edge, namespace: shop }
spec: { gatewayClassName: titan, listeners: [{ name: http, port: 80, protocol: HTTP }] }
---
apiVersion: v1
kind: Service
metadata: { name: front, namespace: shop }
spec: { ports: [{ port: 8080, targetPort: %d }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: front-1, namespace: shop, labels: { kubernetes.io/service-name: front } }
addressType: IPv4
endpoints: [{ addresses: ["%s"], conditions: { ready: true } }]
ports: [{ port: %d }]
`

// route is one to the service, for a host.
const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: %[1]s, namespace: shop }
spec:
  parentRefs: [{ name: edge }]
  hostnames: [%[1]s.example.com]
  rules: [{ backendRefs: [{ name: front, port: 8080 }], matches: [%[2]s] }]
`

// grantRights lets the account do what the chart's roles let it do.
func grantRights() error {
	helm, err := cluster.Program("helm")
	if err != nil {
		return err
	}
	chart := exec.Command(helm, "template", "edge", "../../../packaging/helm/titan", "--kube-version", "1.37.0",
		"--set", "image.repository=titan", "--show-only", "templates/rbac.yaml")
	printed, err := chart.Output()
	if err != nil {
		return fmt.Errorf("helm template: %w", err)
	}
	objects, err := objectsOf(string(printed))
	if err != nil {
		return err
	}
	granted := map[string]bool{}
	for _, object := range objects {
		kind, name, namespace := object.GetKind(), object.GetName(), object.GetNamespace()
		role := rbac.RoleRef{APIGroup: rbac.GroupName, Kind: kind, Name: name}
		subjects := []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: account}}
		var binding client.Object
		switch kind {
		case "ClusterRole":
			binding = &rbac.ClusterRoleBinding{ObjectMeta: meta.ObjectMeta{Name: name}, RoleRef: role, Subjects: subjects}
		case "Role":
			binding = &rbac.RoleBinding{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: namespace}, RoleRef: role, Subjects: subjects}
		default:
			continue
		}
		granted[kind] = true
		if err := errors.Join(api.Create(context.Background(), object), api.Create(context.Background(), binding)); err != nil {
			return err
		}
	}
	if !granted["ClusterRole"] || !granted["Role"] {
		return errors.New("the chart lacks a ClusterRole, or a Role for the lease")
	}
	return nil
}

// respond has requests answered at the address of the node, and returns the port.
func respond() (int, error) {
	listener, err := net.Listen("tcp", cluster.NodeAddress+":0")
	if err != nil {
		return 0, err
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "from the pod")
	}))
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func objectsOf(text string) (objects []*unstructured.Unstructured, err error) {
	reader := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<12)
	for {
		object := &unstructured.Unstructured{}
		switch err := reader.Decode(object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// apply has the API server know these objects, as they are.
func apply(ctx context.Context, text string) error {
	objects, err := objectsOf(text)
	if err != nil {
		return err
	}
	for _, object := range objects {
		err := api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// applied is apply for a test, after which the objects are gone.
func applied(t *testing.T, text string) {
	t.Helper()
	if err := apply(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		objects, _ := objectsOf(text)
		for _, object := range objects {
			_ = api.Delete(context.Background(), object)
		}
	})
}

// A titan is a gateway that runs.
type titan struct {
	command *exec.Cmd
	ended   chan struct{}
	log     *os.File
}

// start runs a gateway whose state is in the directory.
func start(t *testing.T, directory, kubeconfig string) *titan {
	t.Helper()
	return startWith(t, directory, kubeconfig, place{"127.0.0.1:8484", probes, "127.64.0.0/16"})
}

// A place has the addresses of a gateway's admin interface, and the network of those that it listens on.
type place struct{ admin, probes, network string }

// startWith runs one at a place. Two gateways never share an address: the second one finds it in use.
func startWith(t *testing.T, directory, kubeconfig string, at place) *titan {
	t.Helper()
	program := os.Getenv("TITAN_PROGRAM")
	if program == "" {
		t.Fatal("TITAN_PROGRAM does not name the gateway: make cluster does")
	}
	folder := t.TempDir()
	settings := filepath.Join(folder, "titan.yaml")
	socket := filepath.Join(directory, "admin.sock")
	text := fmt.Sprintf("workers: 1\nadmin: { address: %q, socket: %q, probes: %q }\n", at.admin, socket, at.probes)
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "kubernetes", "--kubeconfig", kubeconfig, "--address", at.network,
		"--directory", directory, settings)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	started := &titan{command: command, ended: make(chan struct{}), log: log}
	go func() {
		_ = command.Wait()
		close(started.ended)
	}()
	t.Cleanup(func() {
		started.kill()
		if t.Failed() {
			told, _ := os.ReadFile(log.Name())
			t.Logf("%s", told)
		}
	})
	return started
}

// kill ends it as a crash does.
func (g *titan) kill() {
	_ = g.command.Process.Kill()
	<-g.ended
}

// await looks until what was looked for is there.
func await(t *testing.T, what string, look func() error) {
	t.Helper()
	overdue := time.Now().Add(patience)
	for {
		err := look()
		if err == nil {
			return
		}
		if time.Now().After(overdue) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(every)
	}
}

// status reads an object's status, and what it has at a path of it.
func conditionOf(t *testing.T, kind, name, condition string) func(expected string) error {
	t.Helper()
	return func(expected string) error {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("gateway.networking.k8s.io/v1")
		object.SetKind(kind)
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, object); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		parents, _, _ := unstructured.NestedSlice(object.Object, "status", "parents")
		for _, parent := range parents {
			more, _, _ := unstructured.NestedSlice(parent.(map[string]any), "conditions")
			conditions = append(conditions, more...)
		}
		for _, it := range conditions {
			it := it.(map[string]any)
			if it["type"] == condition {
				found := fmt.Sprintf("%s/%s: %s", it["status"], it["reason"], it["message"])
				if strings.HasPrefix(found, expected) {
					return nil
				}
				return errors.New(found)
			}
		}
		return fmt.Errorf("no condition %s", condition)
	}
}

// address is where the gateway of the cluster listens.
func address(t *testing.T) string {
	t.Helper()
	var found string
	await(t, "the gateway has an address", func() error {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion("gateway.networking.k8s.io/v1")
		object.SetKind("Gateway")
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "edge"}, object); err != nil {
			return err
		}
		addresses, _, _ := unstructured.NestedSlice(object.Object, "status", "addresses")
		if len(addresses) != 1 {
			return fmt.Errorf("%v", addresses)
		}
		found, _ = addresses[0].(map[string]any)["value"].(string)
		return nil
	})
	return found
}

// get asks for a page of a host, on a connection of its own.
func get(address, host, path string) (int, string, error) {
	return getOver(&http.Transport{DisableKeepAlives: true}, address, host, path)
}

// ask asks for what the gateway whose state is in the directory says of itself.
func ask(t *testing.T, directory, path string, told any) {
	t.Helper()
	socket := filepath.Join(directory, "admin.sock")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	_, body, err := getOver(&http.Transport{DisableKeepAlives: true, DialContext: dial}, "titan", "titan", path)
	if err == nil {
		err = json.Unmarshal([]byte(body), told)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
}

func getOver(transport *http.Transport, address, host, path string) (int, string, error) {
	request, err := http.NewRequest("GET", "http://"+address+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Host = host
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// serves looks whether a host's requests come to the pod.
func serves(address, host string) func() error {
	return func() error {
		status, body, err := get(address, host, "/")
		if err == nil && (status != 200 || body != "from the pod") {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	}
}

// isReady looks whether the gateway is to get requests.
func isReady() error {
	status, body, err := get(probes, "", "/readyz")
	if err == nil && status != 200 {
		err = fmt.Errorf("%d %s", status, body)
	}
	return err
}

// private has a directory into which nobody else looks.
func private(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	return directory
}

// unreachable is the kubeconfig of an API server that is not there.
func unreachable(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(":6443"), []byte(":1")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// source is how the gateway's only source fares.
func source(t *testing.T, directory string) (state, held string) {
	t.Helper()
	var told struct {
		Sources []struct {
			State    string
			HeldBack []struct{ Document, Reason string } `json:"held_back"`
		}
	}
	ask(t, directory, "/sources", &told)
	if len(told.Sources) != 1 {
		t.Fatalf("%v", told)
	}
	for _, document := range told.Sources[0].HeldBack {
		held += document.Document + ": " + document.Reason + "\n"
	}
	return told.Sources[0].State, held
}

func TestARouteThatDoesNotFitIsHeldBackAlone(t *testing.T) {
	directory := private(t)
	start(t, directory, kubeconfig)
	applied(t, fmt.Sprintf(route, "good", `{}`))
	await(t, "the good one serves", serves(address(t), "good.example.com"))
	long := fmt.Sprintf(`{ headers: [{ name: a, type: RegularExpression, value: %q }] }`, strings.Repeat("x", 2000))
	applied(t, fmt.Sprintf(route, "bad", long))
	accepted := conditionOf(t, "HTTPRoute", "bad", "Accepted")
	await(t, "its owner is told", func() error { return accepted("False/UnsupportedValue: ") })
	if state, held := source(t, directory); state != "up" || !strings.HasPrefix(held, "httproute/shop/bad: ") {
		t.Errorf("%s %s", state, held)
	}
	applied(t, fmt.Sprintf(route, "later", `{}`))
	await(t, "what comes later serves", serves(address(t), "later.example.com"))
	accepted = conditionOf(t, "HTTPRoute", "good", "Accepted")
	await(t, "the good one is accepted", func() error { return accepted("True/Accepted: ") })
	applied(t, fmt.Sprintf(route, "bad", `{}`))
	await(t, "it serves once it fits", serves(address(t), "bad.example.com"))
}

func TestAGatewayIsNotReadyBeforeItKnowsTheCluster(t *testing.T) {
	start(t, private(t), unreachable(t))
	await(t, "it says what it waits for", func() error {
		status, body, err := get(probes, "", "/readyz")
		if err == nil && (status != 503 || !strings.Contains(body, "a source has not delivered yet")) {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

func TestAStartWithoutTheAPIServerServesWhatWasInForce(t *testing.T) {
	applied(t, fmt.Sprintf(route, "kept", `{}`))
	directory := private(t)
	first := start(t, directory, kubeconfig)
	at := address(t)
	await(t, "it serves", serves(at, "kept.example.com"))
	await(t, "it is ready", isReady)
	awaitKept(t, directory, "endpoints", cluster.NodeAddress)
	awaitKept(t, directory, "sources", "kept.example.com")
	first.kill()
	start(t, directory, unreachable(t))
	await(t, "it is ready again", isReady)
	if err := serves(at, "kept.example.com")(); err != nil {
		t.Error(err)
	}
	await(t, "it says what is wrong", func() error {
		if state, _ := source(t, directory); state != "failing" {
			return errors.New(state)
		}
		return nil
	})
}

// awaitKept looks until something stands in the part of the state directory that is so called.
func awaitKept(t *testing.T, directory, part, expected string) {
	t.Helper()
	await(t, part+" are kept", func() error {
		text, err := os.ReadFile(filepath.Join(directory, part, "kubernetes.json"))
		if err == nil && !bytes.Contains(text, []byte(expected)) {
			err = fmt.Errorf("%s", text)
		}
		return err
	})
}

func TestAnUpgradeLosesNoRequest(t *testing.T) {
	applied(t, fmt.Sprintf(route, "kept", `{}`))
	directory := private(t)
	before := start(t, directory, kubeconfig)
	at := address(t)
	await(t, "it serves", serves(at, "kept.example.com"))
	awaitKept(t, directory, "sources", "kept.example.com")
	awaitKept(t, directory, "endpoints", cluster.NodeAddress)
	next := make(chan int, 1)
	go func() { next <- upgrade(directory) }()
	asked, look, overdue := 0, serves(at, "kept.example.com"), time.After(patience)
	for ended := false; !ended; asked++ {
		select {
		case <-before.ended:
			ended = true
		case <-overdue:
			t.Fatal("the process before does not end")
		default:
		}
		if err := look(); err != nil {
			t.Fatalf("after %d requests: %v", asked, err)
		}
	}
	successor := <-next
	if successor == 0 {
		t.Fatal("it is not known which process serves now")
	}
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	await(t, "the next one is ready", isReady)
	applied(t, fmt.Sprintf(route, "later", `{}`))
	await(t, "it follows the cluster", serves(at, "later.example.com"))
}

// upgrade has another process take over, and returns which; 0 if that is not known.
func upgrade(directory string) int {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(directory, "admin.sock"))
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	asked := &http.Client{Transport: transport, Timeout: patience}
	response, err := asked.Post("http://titan/upgrade", "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	var told struct{ Pid int }
	_ = json.NewDecoder(response.Body).Decode(&told)
	return told.Pid
}
