package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lease is who writes statuses.
const lease = `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: { name: titan-test-gateway, namespace: default }
spec: { holderIdentity: %q, leaseDurationSeconds: 60 }
`

// holder reads who writes statuses.
func holder(t *testing.T) string {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("coordination.k8s.io/v1")
	object.SetKind("Lease")
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "titan-test-gateway"}, object); err != nil {
		return err.Error()
	}
	who, _, _ := unstructured.NestedString(object.Object, "spec", "holderIdentity")
	return who
}

// forgetAddress has the status of the gateway name no address.
func forgetAddress(t *testing.T) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("gateway.networking.k8s.io/v1")
	object.SetKind("Gateway")
	object.SetNamespace("shop")
	object.SetName("edge")
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"addresses":null}}`))
	if err := api.Status().Patch(context.Background(), object, patch); err != nil {
		t.Error(err)
	}
}

func TestOneOfSeveralGatewaysWritesStatuses(t *testing.T) {
	before := start(t, private(t), kubeconfig)
	where := address(t) + ":80"
	before.kill()
	if err := apply(t.Context(), fmt.Sprintf(lease, "another")); err != nil {
		t.Fatal(err)
	}
	// The next test has a gateway with other addresses than the one that may have written the status last.
	t.Cleanup(func() { forgetAddress(t) })
	gateways := []*titan{
		start(t, private(t), kubeconfig),
		startWith(t, private(t), kubeconfig, place{"127.0.0.1:8485", "127.0.0.1:9903", "127.65.0.0/16"}),
	}
	await(t, "it is ready", isReady)
	applied(t, fmt.Sprintf(route, "first", "{}"))
	await(t, "a gateway that does not write statuses serves", serves(where, "first.example.com"))
	accepted := func(name string) func() error {
		return func() error { return conditionOf(t, "HTTPRoute", name, "Accepted")("True/Accepted") }
	}
	if err := accepted("first")(); err == nil || err.Error() != "no condition Accepted" {
		t.Fatalf("a status was written beside the holder of the lease: %v", err)
	}
	if err := apply(t.Context(), fmt.Sprintf(lease, "")); err != nil {
		t.Fatal(err)
	}
	await(t, "one of them writes the status", accepted("first"))
	first := -1
	await(t, "one of them holds the lease", func() error {
		who := holder(t)
		for at, gateway := range gateways {
			if strings.HasSuffix(who, fmt.Sprintf("-%d", gateway.command.Process.Pid)) {
				first = at
				return nil
			}
		}
		return errors.New(who)
	})
	gateways[first].kill()
	applied(t, fmt.Sprintf(route, "second", "{}"))
	await(t, "the other one writes the next status", accepted("second"))
	if who := holder(t); !strings.HasSuffix(who, fmt.Sprintf("-%d", gateways[1-first].command.Process.Pid)) {
		t.Fatalf("%s holds the lease", who)
	}
}
