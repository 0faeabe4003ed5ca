// Package standin does, on an API server without a cluster, what its tests need of the controllers, the scheduler and
// the kubelet: namespaces, deployments, pods that are processes with addresses of their own, and EndpointSlices.
package standin

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	slices "k8s.io/api/discovery/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"titan.test/kubernetes/cluster"
)

const (
	// signature is how the stand-in signs its objects, and the name of its only node.
	signature = "standin"
	// seenWithin bounds the time until the stand-in has seen what is there.
	seenWithin = 20 * time.Second
	// lookWithin bounds each look, whatever the API server makes of it.
	lookWithin = 30 * time.Second
	// tryAgain is how long to wait after something could not be done, which is ordinary: a secret may not be there yet.
	tryAgain = 100 * time.Millisecond
)

// A Standin looks at everything again whenever something has changed. Only the goroutine of run touches its pods.
type Standin struct {
	client    kubernetes.Interface
	contents  metadata.Interface
	discovery discovery.DiscoveryInterface

	namespaces  watched[*core.Namespace]
	deployments watched[*apps.Deployment]
	pods        watched[*core.Pod]
	services    watched[*core.Service]
	slices      watched[*slices.EndpointSlice]

	changed chan struct{}
	kubelet *kubelet
	cancel  context.CancelFunc
	ended   sync.WaitGroup
	// accounts are the namespaces that have got theirs.
	accounts map[string]bool
	// complained is what the last look could not do: it is logged once, not every time.
	complained map[string]bool
}

// Start returns when the stand-in watches; Stop ends it and its pods. Files of pods are put into the folder.
func Start(config *rest.Config, folder string) (*Standin, error) {
	echo, err := cluster.Program("echo-basic")
	if err != nil {
		return nil, err
	}
	standin, err := connect(config)
	if err != nil {
		return nil, err
	}
	standin.kubelet = newKubelet(echo, folder, standin.client, standin.poke)
	ctx, cancel := context.WithCancel(context.Background())
	standin.cancel = cancel
	if err := standin.begin(ctx); err != nil {
		standin.Stop()
		return nil, err
	}
	return standin, nil
}

func (s *Standin) begin(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	if err := s.kubelet.register(bounded); err != nil {
		return err
	}
	s.startWatching(ctx)
	if !s.awaitWatching(bounded) {
		return fmt.Errorf("the API server has not shown what there is after %s", seenWithin)
	}
	s.ended.Go(func() { s.run(ctx) })
	return nil
}

func connect(config *rest.Config) (*Standin, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// It looks at kinds that are old as well, which the API server warns of.
	quiet := rest.CopyConfig(config)
	quiet.WarningHandler = rest.NoWarnings{}
	contents, err := metadata.NewForConfig(quiet)
	if err != nil {
		return nil, err
	}
	standin := &Standin{
		client:    client,
		contents:  contents,
		discovery: client.Discovery(),
		changed:   make(chan struct{}, 1),
		accounts:  map[string]bool{},
	}
	return standin, standin.watchAll(client)
}

func (s *Standin) watchAll(client *kubernetes.Clientset) error {
	var failed [5]error
	basic, poke := client.CoreV1().RESTClient(), s.poke
	s.namespaces, failed[0] = follow(basic, "namespaces", &core.Namespace{}, poke)
	s.pods, failed[1] = follow(basic, "pods", &core.Pod{}, poke)
	s.services, failed[2] = follow(basic, "services", &core.Service{}, poke)
	s.deployments, failed[3] = follow(client.AppsV1().RESTClient(), "deployments", &apps.Deployment{}, poke)
	s.slices, failed[4] = follow(client.DiscoveryV1().RESTClient(), "endpointslices", &slices.EndpointSlice{}, poke)
	return errors.Join(failed[:]...)
}

func (s *Standin) startWatching(ctx context.Context) {
	s.ended.Go(func() { s.namespaces.run(ctx) })
	s.ended.Go(func() { s.pods.run(ctx) })
	s.ended.Go(func() { s.services.run(ctx) })
	s.ended.Go(func() { s.deployments.run(ctx) })
	s.ended.Go(func() { s.slices.run(ctx) })
}

// awaitWatching returns whether everything that is there has been seen.
func (s *Standin) awaitWatching(ctx context.Context) bool {
	return cache.WaitForCacheSync(ctx.Done(),
		s.namespaces.synced, s.pods.synced, s.services.synced, s.deployments.synced, s.slices.synced)
}

// Stop returns when no process of a pod is left.
func (s *Standin) Stop() {
	s.cancel()
	s.ended.Wait()
	s.kubelet.stop()
}

func (s *Standin) poke() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Standin) run(ctx context.Context) {
	for {
		select {
		case <-s.changed:
		case <-ctx.Done():
			return
		}
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.complain(err)
			time.AfterFunc(tryAgain, s.poke)
		}
	}
}

// look does what is to be done for the objects as they were seen last. What it has seen may be old: the API server then
// refuses the change, and the change that it was too old for makes it look again.
func (s *Standin) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return errors.Join(
		s.lookAtNamespaces(ctx),
		s.lookAtDeployments(ctx),
		s.lookAtPods(ctx),
		s.lookAtServices(ctx),
	)
}

func (s *Standin) complain(err error) {
	said := map[string]bool{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		said[line] = true
		if !s.complained[line] {
			log.Print("standin: ", line)
		}
	}
	s.complained = said
}
