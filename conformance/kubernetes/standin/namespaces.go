package standin

import (
	"context"
	"errors"
	"fmt"

	core "k8s.io/api/core/v1"
	refused "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// lookAtNamespaces gives each the service account that pods run as, and takes apart those that are to go.
func (s *Standin) lookAtNamespaces(ctx context.Context) error {
	var failed []error
	for _, namespace := range s.namespaces.all() {
		if namespace.DeletionTimestamp != nil {
			failed = append(failed, s.takeApart(ctx, namespace))
			continue
		}
		failed = append(failed, s.giveAccount(ctx, namespace.Name))
	}
	return errors.Join(failed...)
}

func (s *Standin) giveAccount(ctx context.Context, namespace string) error {
	if s.accounts[namespace] {
		return nil
	}
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "default"}}
	_, err := s.client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, meta.CreateOptions{})
	if err != nil && !refused.IsAlreadyExists(err) {
		return err
	}
	s.accounts[namespace] = true
	return nil
}

// takeApart lets a namespace go once nothing is left in it: some objects take a while, as pods do.
func (s *Standin) takeApart(ctx context.Context, namespace *core.Namespace) error {
	delete(s.accounts, namespace.Name)
	kinds, err := s.namespacedKinds()
	if err != nil {
		return err
	}
	left := 0
	for _, kind := range kinds {
		found, err := s.deleteAll(ctx, kind, namespace.Name)
		if err != nil {
			return err
		}
		left += found
	}
	if left > 0 {
		return fmt.Errorf("%d objects are still in the namespace %s", left, namespace.Name)
	}
	final := namespace.DeepCopy()
	final.Spec.Finalizers = nil
	_, err = s.client.CoreV1().Namespaces().Finalize(ctx, final, meta.UpdateOptions{})
	return ignoreOld(err)
}

// namespacedKinds asks each time: definitions of resources come and go.
func (s *Standin) namespacedKinds() ([]schema.GroupVersionResource, error) {
	lists, err := s.discovery.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, err
	}
	deletable := discovery.SupportsAllVerbs{Verbs: []string{"list", "deletecollection"}}
	found, err := discovery.GroupVersionResources(discovery.FilteredBy(deletable, lists))
	if err != nil {
		return nil, err
	}
	kinds := make([]schema.GroupVersionResource, 0, len(found))
	for kind := range found {
		// They expire, and there is one about each thing deleted here.
		if kind.Resource != "events" {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// deleteAll returns how many objects there were.
func (s *Standin) deleteAll(ctx context.Context, kind schema.GroupVersionResource, namespace string) (int, error) {
	objects := s.contents.Resource(kind).Namespace(namespace)
	list, err := objects.List(ctx, meta.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return 0, err
	}
	return len(list.Items), objects.DeleteCollection(ctx, meta.DeleteOptions{}, meta.ListOptions{})
}

// ignoreOld forgets refusals that only say that something else was quicker.
func ignoreOld(err error) error {
	if refused.IsNotFound(err) || refused.IsConflict(err) || refused.IsAlreadyExists(err) {
		return nil
	}
	return err
}
