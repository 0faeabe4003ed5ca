package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	// gatewayAPI is the module whose definitions are installed, in the version that go.mod names.
	gatewayAPI = "sigs.k8s.io/gateway-api"
	// establishedWithin bounds the time until the API server serves them.
	establishedWithin = 20 * time.Second
)

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// InstallGatewayAPI adds the definitions of Gateway API, those of its experimental channel too, and waits for them.
func InstallGatewayAPI(config *rest.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), establishedWithin)
	defer cancel()
	files, err := definitionFiles(ctx)
	if err != nil {
		return err
	}
	return InstallDefinitions(ctx, config, files...)
}

// InstallDefinitions adds those of these files, and waits for them.
func InstallDefinitions(ctx context.Context, config *rest.Config, files ...string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	var names []string
	for _, file := range files {
		name, err := install(ctx, client.Resource(definitions), file)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		if name != "" {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := awaitEstablished(ctx, client.Resource(definitions), name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func definitionFiles(ctx context.Context) ([]string, error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", gatewayAPI).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", gatewayAPI, err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "config/crd/experimental/gateway.*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no definitions in the module %s", gatewayAPI)
	}
	return files, err
}

// install returns the name of the definition, if the file has one.
func install(ctx context.Context, client dynamic.ResourceInterface, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &definition.Object); err != nil {
		return "", err
	}
	// The other kinds in the folder guard clusters that are upgraded.
	if definition.GetKind() != "CustomResourceDefinition" {
		return "", nil
	}
	_, err = client.Create(ctx, definition, meta.CreateOptions{})
	return definition.GetName(), err
}

func awaitEstablished(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	watched, err := client.Watch(ctx, meta.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return err
	}
	defer watched.Stop()
	for event := range watched.ResultChan() {
		if definition, ok := event.Object.(*unstructured.Unstructured); ok && isEstablished(definition) {
			return nil
		}
	}
	return errors.Join(errors.New("it is not served"), ctx.Err())
}

func isEstablished(definition *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		if fields["type"] == "Established" && fields["status"] == "True" {
			return true
		}
	}
	return false
}
