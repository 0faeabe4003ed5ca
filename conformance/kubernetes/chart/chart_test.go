// Package chart tests the Helm chart of packaging/helm with Helm, and with a real API server, which refuses what is wrong in
// the objects that it makes.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	core "k8s.io/api/core/v1"
	refused "k8s.io/apimachinery/pkg/api/errors"

	"titan.test/kubernetes/cluster"
)

const (
	chart     = "../../../packaging/helm/titan"
	release   = "edge"
	namespace = "gateways"
)

// running is the API server of all tests.
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

// helm runs Helm, and returns what it prints.
func helm(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("TITAN_KUBERNETES"), "helm"), arguments...)
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	var complaint bytes.Buffer
	command.Stderr = &complaint
	printed, err := command.Output()
	if err != nil {
		err = errors.Join(err, errors.New(complaint.String()))
	}
	return string(printed), err
}

// template has the chart's objects as texts, of values that are written as for `--set-json`.
func template(t *testing.T, values ...string) (string, error) {
	t.Helper()
	arguments := []string{"template", release, chart, "--namespace", namespace, "--kube-version", "1.37.0"}
	for _, value := range values {
		arguments = append(arguments, "--set-json", value)
	}
	return helm(t, arguments...)
}

// rendered has the objects that the chart makes of such values.
func rendered(t *testing.T, values ...string) []*unstructured.Unstructured {
	t.Helper()
	printed, err := template(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	reader := yaml.NewYAMLOrJSONDecoder(strings.NewReader(printed), 1<<12)
	for {
		object := &unstructured.Unstructured{}
		err := reader.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// kindsOf has the kinds of objects with their number.
func kindsOf(objects []*unstructured.Unstructured) map[string]int {
	kinds := map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
	}
	return kinds
}

// find returns the only object of that kind whose name ends so.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, end string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && strings.HasSuffix(object.GetName(), end) {
			return object
		}
	}
	t.Fatalf("there is no %s whose name ends with %q: %v", kind, end, kindsOf(objects))
	return nil
}

// apply creates objects on the API server as if in earnest, and returns what it says of those that it refuses.
func apply(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	client, err := kubernetes.NewForConfig(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{namespace, "shop"} {
		space := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(t.Context(), space, meta.CreateOptions{})
		if err != nil && !refused.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	found, err := discovery.NewDiscoveryClientForConfig(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	dynamically, err := dynamic.NewForConfig(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if err := applyOne(t.Context(), mapper, dynamically, object); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

func applyOne(
	ctx context.Context, mapper *restmapper.DeferredDiscoveryRESTMapper, client dynamic.Interface, object *unstructured.Unstructured,
) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	options := meta.CreateOptions{DryRun: []string{meta.DryRunAll}, FieldValidation: meta.FieldValidationStrict}
	_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).Create(ctx, object, options)
	return err
}

func TestHelmFindsNothingWrong(t *testing.T) {
	printed, err := helm(t, "lint", "--strict", chart)
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
}

func TestTheAPIServerTakesWhatTheChartMakes(t *testing.T) {
	for name, values := range map[string][]string{
		"defaults": nil,
		"all": {
			`autoscaling={"enabled": true, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "r"},
				"target": {"type": "AverageValue", "averageValue": "5k"}}}]}`,
			`addresses=["192.0.2.1", "gateway.example.com"]`, `namespaces=["shop", "gateways"]`, `podAnnotations={"a": "b"}`,
			`podLabels={"c": "d"}`, `nodeSelector={"e": "f"}`, `tolerations=[{"key": "g", "operator": "Exists"}]`,
			`affinity={"nodeAffinity": {}}`, `priorityClassName="system-node-critical"`, `imagePullSecrets=[{"name": "h"}]`,
			`serviceAccount={"create": true, "name": "other", "annotations": {"i": "j"}}`,
			`service={"type": "NodePort", "annotations": {"k": "l"}, "externalTrafficPolicy": "Cluster"}`,
			`ports=[{"name": "http", "port": 80, "nodePort": 30080}]`,
			`topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "m", "whenUnsatisfiable": "ScheduleAnyway"}]`,
		},
		"a pod on each node": {`kind="DaemonSet"`, `service={"type": "ClusterIP"}`, `podDisruptionBudget={"maxUnavailable": "10%"}`},
	} {
		t.Run(name, func(t *testing.T) { apply(t, rendered(t, values...)) })
	}
}

func TestRightsEndAtTheNamespacesThatAreRead(t *testing.T) {
	all := rendered(t)
	if kinds := kindsOf(all); kinds["Role"] != 1 || kinds["ClusterRole"] != 1 {
		t.Errorf("for all namespaces: %v", kinds)
	}
	two := rendered(t, `namespaces=["shop", "gateways"]`)
	if kinds := kindsOf(two); kinds["Role"] != 3 || kinds["RoleBinding"] != 3 || kinds["ClusterRole"] != 1 {
		t.Errorf("for two namespaces: %v", kinds)
	}
	rules, err := json.Marshal(find(t, two, "ClusterRole", "").Object["rules"])
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secrets", "services", "httproutes"} {
		if bytes.Contains(rules, []byte(secret)) {
			t.Errorf("rights to %s reach beyond the namespaces: %s", secret, rules)
		}
	}
}

func TestAPodIsConfined(t *testing.T) {
	pod, _, err := unstructured.NestedMap(find(t, rendered(t), "Deployment", "").Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	if nonRoot, _, _ := unstructured.NestedBool(pod, "securityContext", "runAsNonRoot"); !nonRoot {
		t.Error("it may run as root")
	}
	containers, _, _ := unstructured.NestedSlice(pod, "containers")
	container, isMap := containers[0].(map[string]any)
	if len(containers) != 1 || !isMap {
		t.Fatalf("its containers: %v", containers)
	}
	readOnly, _, _ := unstructured.NestedBool(container, "securityContext", "readOnlyRootFilesystem")
	grows, _, _ := unstructured.NestedBool(container, "securityContext", "allowPrivilegeEscalation")
	dropped, _, _ := unstructured.NestedStringSlice(container, "securityContext", "capabilities", "drop")
	if !readOnly || grows || len(dropped) != 1 || dropped[0] != "ALL" {
		t.Errorf("its security context: %v", container["securityContext"])
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		if _, has := container[probe]; !has {
			t.Errorf("it has no %s", probe)
		}
	}
}

func TestWhatIsOffMakesNothing(t *testing.T) {
	kinds := kindsOf(rendered(t, `gatewayClass={"create": false}`, `podDisruptionBudget={"enabled": false}`,
		`serviceAccount={"create": false}`))
	for _, kind := range []string{"GatewayClass", "PodDisruptionBudget", "ServiceAccount", "HorizontalPodAutoscaler", "ServiceMonitor"} {
		if kinds[kind] != 0 {
			t.Errorf("there is a %s", kind)
		}
	}
	if kinds := kindsOf(rendered(t, `serviceMonitor={"enabled": true}`)); kinds["ServiceMonitor"] != 1 {
		t.Errorf("no ServiceMonitor: %v", kinds)
	}
}

func TestValuesThatNobodyKnowsAreRefused(t *testing.T) {
	for value, complaint := range map[string]string{
		`replica=3`:                              "replica",
		`ports=[]`:                               "ports",
		`ports=[{"name": "http", "port": 0}]`:    "port",
		`image={"repository": ""}`:               "repository",
		`namespaces=["Shop"]`:                    "namespaces",
		`kind="StatefulSet"`:                     "kind",
		`controllerName="titan"`:                 "controllerName",
		`service={"type": "ExternalName"}`:       "type",
		`serviceMonitor={"interval": "often"}`:   "interval",
		`autoscaling={"minReplicas": 0}`:         "minReplicas",
		`podDisruptionBudget={"minAvailable":1}`: "minAvailable",
	} {
		_, err := template(t, value)
		if err == nil || !strings.Contains(err.Error(), complaint) {
			t.Errorf("%s: %v", value, err)
		}
	}
	_, err := template(t, `kind="DaemonSet"`, `autoscaling={"enabled": true}`)
	if err == nil || !strings.Contains(err.Error(), "needs `kind: Deployment`") {
		t.Errorf("a DaemonSet that scales: %v", err)
	}
}
