package standin

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	refused "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"titan.test/kubernetes/cluster"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// everywhere is a client of the cluster that all tests share.
var everywhere kubernetes.Interface

func TestMain(m *testing.M) {
	os.Exit(cluster.Inside(func() int {
		code, err := runOn(m)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

func runOn(m *testing.M) (int, error) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		return 0, err
	}
	started, err := cluster.Start(folder)
	if err != nil {
		return 0, err
	}
	defer started.Stop()
	standin, err := Start(started.Config, folder)
	if err != nil {
		return 0, err
	}
	defer standin.Stop()
	everywhere, err = kubernetes.NewForConfig(started.Config)
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// A ground is a namespace of its own.
type ground struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
}

func onGround(t *testing.T) ground {
	t.Helper()
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{GenerateName: "shop-"}}
	namespace, err := everywhere.CoreV1().Namespaces().Create(t.Context(), namespace, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ground{t, everywhere, namespace.Name}
}

// deploy makes a deployment of echo servers and a service that selects them.
func (g ground) deploy(name string, replicas int32, environment ...core.EnvVar) {
	g.Helper()
	label := map[string]string{"app": name}
	field := func(path string) *core.EnvVarSource {
		return &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: path}}
	}
	environment = append(environment,
		core.EnvVar{Name: "POD_NAME", ValueFrom: field("metadata.name")},
		core.EnvVar{Name: "NAMESPACE", ValueFrom: field("metadata.namespace")})
	deployment := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: apps.DeploymentSpec{
		Replicas: &replicas,
		Selector: &meta.LabelSelector{MatchLabels: label},
		Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: label}, Spec: core.PodSpec{
			Containers: []core.Container{{
				Name: name, Image: "registry.test" + echoImage + "latest", Env: environment,
				Ports: []core.ContainerPort{{Name: "web", ContainerPort: 3000}},
			}},
		}},
	}}
	if _, err := g.client.AppsV1().Deployments(g.namespace).Create(g.Context(), deployment, meta.CreateOptions{}); err != nil {
		g.Fatal(err)
	}
	service := &core.Service{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.ServiceSpec{
		Selector: label,
		Ports:    []core.ServicePort{{Port: 80, TargetPort: intstr.FromString("web")}},
	}}
	if _, err := g.client.CoreV1().Services(g.namespace).Create(g.Context(), service, meta.CreateOptions{}); err != nil {
		g.Fatal(err)
	}
}

// awaitSlice returns the service's slice once it is as wanted.
func (g ground) awaitSlice(service string, wanted func(*discovery.EndpointSlice) bool) *discovery.EndpointSlice {
	g.Helper()
	ctx, cancel := context.WithTimeout(g.Context(), patience)
	defer cancel()
	selected := meta.ListOptions{LabelSelector: labels.Set{discovery.LabelServiceName: service}.String()}
	watched, err := g.client.DiscoveryV1().EndpointSlices(g.namespace).Watch(ctx, selected)
	if err != nil {
		g.Fatal(err)
	}
	defer watched.Stop()
	var last any
	for event := range watched.ResultChan() {
		last = event.Object
		if slice, ok := event.Object.(*discovery.EndpointSlice); ok && event.Type != watch.Deleted && wanted(slice) {
			return slice
		}
	}
	g.Fatalf("the slice of %s is not as wanted: %v", service, last)
	return nil
}

func allReady(count int) func(*discovery.EndpointSlice) bool {
	return func(slice *discovery.EndpointSlice) bool {
		for _, endpoint := range slice.Endpoints {
			if !*endpoint.Conditions.Ready {
				return false
			}
		}
		return len(slice.Endpoints) == count
	}
}

func TestPodsOfADeploymentRespondAtTheirAddresses(t *testing.T) {
	g := onGround(t)
	g.deploy("echo", 2)
	slice := g.awaitSlice("echo", allReady(2))
	if *slice.Ports[0].Port != 3000 {
		t.Errorf("the named port is %d", *slice.Ports[0].Port)
	}
	for _, endpoint := range slice.Endpoints {
		said := askEcho(t, endpoint.Addresses[0])
		if said.Pod != endpoint.TargetRef.Name || said.Namespace != g.namespace {
			t.Errorf("%s is %+v", endpoint.TargetRef.Name, said)
		}
		// Gateway API's suite takes two words off to know whose pod it is.
		if words := strings.Split(said.Pod, "-"); len(words) != 3 || words[0] != "echo" {
			t.Errorf("%s is no name of a deployment's pod", said.Pod)
		}
	}
}

type echoed struct{ Pod, Namespace string }

func askEcho(t *testing.T, address string) echoed {
	t.Helper()
	client := http.Client{Timeout: patience}
	response, err := client.Get("http://" + net.JoinHostPort(address, echoPort) + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var said echoed
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said
}

func TestASliceFollowsAPodThatGoes(t *testing.T) {
	g := onGround(t)
	g.deploy("echo", 1)
	before := g.awaitSlice("echo", allReady(1)).Endpoints[0]
	if err := g.client.CoreV1().Pods(g.namespace).Delete(t.Context(), before.TargetRef.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	after := g.awaitSlice("echo", func(slice *discovery.EndpointSlice) bool {
		return allReady(1)(slice) && slice.Endpoints[0].TargetRef.UID != before.TargetRef.UID
	}).Endpoints[0]
	if after.Addresses[0] == before.Addresses[0] {
		t.Errorf("both have the address %s", after.Addresses[0])
	}
	if _, err := net.DialTimeout("tcp", net.JoinHostPort(before.Addresses[0], echoPort), time.Second); err == nil {
		t.Error("the pod that went still listens")
	}
}

func TestAPodThatGoesIsTerminatingFirst(t *testing.T) {
	g := onGround(t)
	g.deploy("echo", 1)
	pod := g.awaitSlice("echo", allReady(1)).Endpoints[0].TargetRef.Name
	pods := g.client.CoreV1().Pods(g.namespace)
	// With a finalizer the object stays, however quickly its process ends.
	hold := []byte(`{"metadata":{"finalizers":["titan.test/hold"]}}`)
	if _, err := pods.Patch(t.Context(), pod, "application/merge-patch+json", hold, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), pod, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	g.awaitSlice("echo", func(slice *discovery.EndpointSlice) bool {
		return len(slice.Endpoints) == 1 && *slice.Endpoints[0].Conditions.Terminating && !*slice.Endpoints[0].Conditions.Ready
	})
	let := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := pods.Patch(t.Context(), pod, "application/merge-patch+json", let, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestADeploymentGrowsAndShrinks(t *testing.T) {
	g := onGround(t)
	g.deploy("echo", 1)
	g.awaitSlice("echo", allReady(1))
	for _, replicas := range []string{"3", "0"} {
		patch := []byte(`{"spec":{"replicas":` + replicas + `}}`)
		deployments := g.client.AppsV1().Deployments(g.namespace)
		if _, err := deployments.Patch(t.Context(), "echo", "application/merge-patch+json", patch, meta.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		g.awaitSlice("echo", allReady(int(replicas[0]-'0')))
	}
}

func TestAPodHasTheFilesOfItsSecret(t *testing.T) {
	g := onGround(t)
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "own", UID: "of-a-test", Namespace: g.namespace}}
	pod.Spec.Volumes = []core.Volume{{Name: "keys", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{
		SecretName: "pair", Items: []core.KeyToPath{{Key: "tls.crt", Path: "crt"}},
	}}}}
	container := core.Container{
		Env:          []core.EnvVar{{Name: "TLS_SERVER_CERT", Value: "/etc/keys/crt"}},
		VolumeMounts: []core.VolumeMount{{Name: "keys", MountPath: "/etc/keys"}},
	}
	kubelet := newKubelet("", t.TempDir(), g.client, func() {})
	if _, err := kubelet.mount(t.Context(), pod, container); !refused.IsNotFound(err) {
		t.Errorf("a secret that is not there: %v", err)
	}
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: "pair"}, Data: map[string][]byte{"tls.crt": []byte("chain")}}
	if _, err := g.client.CoreV1().Secrets(g.namespace).Create(t.Context(), secret, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mounts, err := kubelet.mount(t.Context(), pod, container)
	if err != nil {
		t.Fatal(err)
	}
	variables, err := environment(pod, container, mounts)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := strings.CutPrefix(variables[1], "TLS_SERVER_CERT=")
	if content, err := os.ReadFile(path); string(content) != "chain" {
		t.Errorf("%s has %q: %v", variables[1], content, err)
	}
}

func TestLogsOfAPodAreServed(t *testing.T) {
	g := onGround(t)
	g.deploy("echo", 1)
	endpoint := g.awaitSlice("echo", allReady(1)).Endpoints[0]
	since := meta.Now()
	askEcho(t, endpoint.Addresses[0])
	asked := &core.PodLogOptions{Container: "echo", SinceTime: &since}
	text, err := g.client.CoreV1().Pods(g.namespace).GetLogs(endpoint.TargetRef.Name, asked).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(text), "Echoing back request made to /") {
		t.Errorf("%q: %v", text, err)
	}
}

func TestANamespaceGoesWithAllThatIsInIt(t *testing.T) {
	g := onGround(t)
	g.deploy("echo", 1)
	address := g.awaitSlice("echo", allReady(1)).Endpoints[0].Addresses[0]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	namespaces := g.client.CoreV1().Namespaces()
	watched, err := namespaces.Watch(ctx, meta.ListOptions{FieldSelector: "metadata.name=" + g.namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Stop()
	if err := namespaces.Delete(ctx, g.namespace, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for event := range watched.ResultChan() {
		if event.Type == watch.Deleted {
			if _, err := net.DialTimeout("tcp", net.JoinHostPort(address, echoPort), time.Second); err == nil {
				t.Error("its pod still listens")
			}
			return
		}
	}
	t.Fatal("it is still there")
}
