package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	refused "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// running is the cluster of all tests; one that stops it starts the next.
var running *Cluster

func TestMain(m *testing.M) {
	if os.Getenv(holding) != "" {
		os.Exit(Inside(hold))
	}
	os.Exit(Inside(func() int {
		defer func() { running.Stop() }()
		if err := restart(); err != nil {
			return complain(err)
		}
		return m.Run()
	}))
}

func restart() error {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	running, err = Start(folder)
	return err
}

func clientOf(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestWhatIsWrittenIsWatched(t *testing.T) {
	maps := clientOf(t, running.Config).CoreV1().ConfigMaps("default")
	watch, err := maps.Watch(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	written := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: "written"}, Data: map[string]string{"key": "value"}}
	if _, err := maps.Create(t.Context(), written, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(patience)
	for {
		select {
		case event := <-watch.ResultChan():
			if seen, ok := event.Object.(*core.ConfigMap); ok && seen.Name == "written" {
				if seen.Data["key"] != "value" {
					t.Errorf("watched %v", seen.Data)
				}
				return
			}
		case <-deadline:
			t.Fatal("it was not watched")
		}
	}
}

func TestRolesDecideWhatAUserMay(t *testing.T) {
	kubeconfig, err := running.UserKubeconfig("somebody")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clientOf(t, config).CoreV1().Secrets("default").List(t.Context(), meta.ListOptions{})
	if !refused.IsForbidden(err) {
		t.Errorf("a user without a role lists secrets: %v", err)
	}
	if _, err := clientOf(t, running.Config).CoreV1().Secrets("default").List(t.Context(), meta.ListOptions{}); err != nil {
		t.Errorf("the administrator does not: %v", err)
	}
}

func TestGatewayAPIIsServedOnceItIsInstalled(t *testing.T) {
	if err := InstallGatewayAPI(running.Config); err != nil {
		t.Fatal(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	for version, kinds := range map[string][]string{
		"gateway.networking.k8s.io/v1":       {"Gateway", "HTTPRoute", "GRPCRoute", "BackendTLSPolicy", "ListenerSet"},
		"gateway.networking.k8s.io/v1alpha2": {"TCPRoute", "UDPRoute"},
	} {
		served, err := client.ServerResourcesForGroupVersion(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			if !hasKind(served, kind) {
				t.Errorf("%s has no %s", version, kind)
			}
		}
	}
}

func hasKind(served *meta.APIResourceList, kind string) bool {
	for _, resource := range served.APIResources {
		if resource.Kind == kind {
			return true
		}
	}
	return false
}

func TestAStoppedClusterLeavesItsPortsFree(t *testing.T) {
	running.Stop()
	if err := restart(); err != nil {
		t.Fatal(err)
	}
}

func TestAClusterThatCannotStartSaysWhy(t *testing.T) {
	other, err := Start(t.TempDir())
	if err == nil {
		other.Stop()
		t.Fatal("two clusters share their ports")
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("it says: %v", err)
	}
	if _, err := clientOf(t, running.Config).CoreV1().Namespaces().List(t.Context(), meta.ListOptions{}); err != nil {
		t.Errorf("the one that was there is gone: %v", err)
	}
}
