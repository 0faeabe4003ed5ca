package standin

import (
	"context"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// An object is a pointer to one of the API's types.
type object interface {
	runtime.Object
	meta.Object
}

// A watched kind of object: what there is of it, as it was seen last. Whoever changes an object copies it first.
type watched[T object] struct{ informer cache.SharedIndexInformer }

// follow pokes for every change, whatever it is.
func follow[T object](client cache.Getter, resource string, example T, poke func()) (watched[T], error) {
	source := cache.NewListWatchFromClient(client, resource, meta.NamespaceAll, fields.Everything())
	informer := cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { poke() },
		UpdateFunc: func(any, any) { poke() },
		DeleteFunc: func(any) { poke() },
	})
	return watched[T]{informer}, err
}

func (w watched[T]) run(ctx context.Context) { w.informer.Run(ctx.Done()) }

func (w watched[T]) synced() bool { return w.informer.HasSynced() }

func (w watched[T]) all() []T {
	var found []T
	for _, object := range w.informer.GetStore().List() {
		found = append(found, object.(T))
	}
	return found
}

// selected are those in a namespace whose labels fit.
func (w watched[T]) selected(namespace string, wanted map[string]string) []T {
	selector := labels.SelectorFromSet(wanted)
	var found []T
	for _, object := range w.all() {
		if object.GetNamespace() == namespace && selector.Matches(labels.Set(object.GetLabels())) {
			found = append(found, object)
		}
	}
	return found
}

// named is nil where there is none.
func (w watched[T]) named(namespace, name string) (found T) {
	object, exists, err := w.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return found
	}
	return object.(T)
}
