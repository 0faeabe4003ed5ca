package suite

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	conditions "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	official "sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// patience bounds every wait of this test.
const patience = 30 * time.Second

// The suite prepares itself as it does for a controller, and then each of its services has pods that listen.
func TestTheSuiteFindsItsBackends(t *testing.T) {
	started, options := startGround(t)
	options.TimeoutConfig.GWCMustBeAccepted = patience
	options.TimeoutConfig.NamespacesMustBeReady = patience
	agree(t, started.Config, options.Client.Scheme())
	prepared, err := official.NewConformanceTestSuite(options)
	if err != nil {
		t.Fatal(err)
	}
	prepared.Setup(t, tests.ConformanceTests)
	for _, namespace := range []string{
		official.InfrastructureNamespace, official.AppBackendNamespace, official.WebBackendNamespace,
	} {
		checkServices(t, options.Client, namespace)
	}
}

// agree is a controller that accepts every class and every gateway, and does nothing for them.
func agree(t *testing.T, config *rest.Config, scheme *runtime.Scheme) {
	t.Helper()
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	for _, kind := range []client.ObjectList{&gateway.GatewayClassList{}, &gateway.GatewayList{}} {
		watched, err := api.Watch(ctx, kind)
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			for event := range watched.ResultChan() {
				if object, ok := event.Object.(client.Object); ok && accept(object) {
					// Refused is what has been changed meanwhile: it is watched again.
					_ = api.Status().Update(ctx, object)
				}
			}
		})
	}
}

// accept returns whether that is news.
func accept(object client.Object) bool {
	switch object := object.(type) {
	case *gateway.GatewayClass:
		return set(&object.Status.Conditions, object.Generation, string(gateway.GatewayClassConditionStatusAccepted))
	case *gateway.Gateway:
		accepted := set(&object.Status.Conditions, object.Generation, string(gateway.GatewayConditionAccepted))
		programmed := set(&object.Status.Conditions, object.Generation, string(gateway.GatewayConditionProgrammed))
		return accepted || programmed
	}
	return false
}

func set(list *[]meta.Condition, generation int64, kind string) bool {
	return conditions.SetStatusCondition(list, meta.Condition{
		Type: kind, Status: meta.ConditionTrue, ObservedGeneration: generation, Reason: "Agreed",
	})
}

func checkServices(t *testing.T, api client.Client, namespace string) {
	t.Helper()
	services := &core.ServiceList{}
	if err := api.List(t.Context(), services, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	if len(services.Items) == 0 {
		t.Errorf("%s has no services", namespace)
	}
	for _, service := range services.Items {
		if service.Spec.Selector == nil {
			continue
		}
		slices := &discovery.EndpointSliceList{}
		ofService := client.MatchingLabels{discovery.LabelServiceName: service.Name}
		if err := api.List(t.Context(), slices, client.InNamespace(namespace), ofService); err != nil {
			t.Fatal(err)
		}
		if len(slices.Items) != 1 || len(slices.Items[0].Endpoints) == 0 {
			t.Errorf("%s/%s has no endpoints", namespace, service.Name)
			continue
		}
		checkEndpoints(t, service.Name, slices.Items[0])
	}
}

func checkEndpoints(t *testing.T, service string, slice discovery.EndpointSlice) {
	t.Helper()
	for _, endpoint := range slice.Endpoints {
		if !*endpoint.Conditions.Ready {
			t.Errorf("%s: the pod %s is not ready", service, endpoint.TargetRef.Name)
		}
		for _, port := range slice.Ports {
			if *port.Protocol != core.ProtocolTCP {
				continue
			}
			connection, err := net.DialTimeout("tcp", net.JoinHostPort(endpoint.Addresses[0], fmt.Sprint(*port.Port)), patience)
			if err != nil {
				t.Errorf("%s: %v", service, err)
				continue
			}
			connection.Close()
		}
	}
}
