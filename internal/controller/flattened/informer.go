package flattened

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Keep replaces an object by what a controller reads of it. slim are its flattened names,
// version, UID and time of deletion.
type Keep func(obj runtime.Object, slim metav1.ObjectMeta) error

// NewInformer makes informers of a cache whose configuration names all spaces. They trim objects
// as they arrive. A transform would be too late: reflectors compute keys before, by
// which equal names of two spaces are one.
func (k Keep) NewInformer(source toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	withContext := toolscache.ToListerWatcherWithContext(source)
	trimmed := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := withContext.ListWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return list, meta.EachListItem(list, k.trim)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := withContext.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return roundtrip.FilterWatch(events, k.trimEvent), nil
		},
	}
	return toolscache.NewSharedIndexInformer(trimmed, example, resync, indexers)
}

func (k Keep) trimEvent(event watch.Event) (watch.Event, bool) {
	if event.Type == watch.Error || event.Type == watch.Bookmark {
		return event, true
	}
	if err := k.trim(event.Object); err != nil {
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}, true
	}
	return event, true
}

func (k Keep) trim(obj runtime.Object) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	n := tenant.Name(object.GetAnnotations()[tenant.Annotation])
	if n == "" {
		return fmt.Errorf("object %s/%s carries no tenant", object.GetNamespace(), object.GetName())
	}
	slim := metav1.ObjectMeta{
		Namespace:         object.GetNamespace(),
		Name:              object.GetName(),
		UID:               object.GetUID(),
		ResourceVersion:   object.GetResourceVersion(),
		DeletionTimestamp: object.GetDeletionTimestamp(),
	}
	tenant.FlattenObject(n, &slim)
	return k(obj, slim)
}

// Space returns the space that an object of such a cache is in.
func Space(o client.Object) tenant.Name {
	return tenant.Flat(cmp.Or(o.GetNamespace(), o.GetName())).Space()
}
