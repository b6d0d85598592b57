package follow

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Source is the storage of a resource.
type Source interface {
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
	rest.Watcher
}

// ListWatch does not support streaming lists: the reflector would key objects by
// name, and equal names of two spaces would be one object.
type ListWatch struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by reflectors.
func (ListWatch) IsWatchListSemanticsUnSupported() bool { return true }

// Run keeps index up to date with the objects of source in a scope, and seen with the
// versions of index, until ctx ends. name is for the log.
func Run[T Object](ctx context.Context, name string, in tenant.Scope, source Source, index Index[T], seen *progress.Progress) {
	scoped := tenant.WithScope(ctx, in)
	Reflect(ctx, name, &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return source.List(scoped, internalOptions(options))
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := source.Watch(scoped, internalOptions(options))
			if err != nil {
				return nil, err
			}
			return roundtrip.FilterWatch(events, unwrap), nil
		},
	}, index, seen)
}

// Reflect keeps index up to date with what source lists and watches, and seen with the versions of index, until ctx
// ends. name is for the log.
func Reflect[T Object](ctx context.Context, name string, source *cache.ListWatch, index Index[T], seen *progress.Progress) {
	var example T
	cache.NewReflectorWithOptions(ListWatch{source}, example, store[T]{index, seen}, cache.ReflectorOptions{Name: name}).RunWithContext(ctx)
}

// Metadata lists and watches the metadata of a resource's objects, those that selectors select.
func Metadata(client metadata.Interface, r schema.GroupVersionResource, selectors metav1.ListOptions) *cache.ListWatch {
	objects := client.Resource(r)
	selected := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selectors.LabelSelector, selectors.FieldSelector
		return options
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, selected(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, selected(options))
		},
	}
}

// unwrap returns the object in the envelope in which the watch cache shares its encoded
// forms.
func unwrap(event watch.Event) (watch.Event, bool) {
	if cached, ok := event.Object.(runtime.CacheableObject); ok {
		event.Object = cached.GetObject()
	}
	return event, true
}

func internalOptions(options metav1.ListOptions) *metainternalversion.ListOptions {
	return &metainternalversion.ListOptions{
		ResourceVersion:      options.ResourceVersion,
		ResourceVersionMatch: options.ResourceVersionMatch,
		AllowWatchBookmarks:  options.AllowWatchBookmarks,
		SendInitialEvents:    options.SendInitialEvents,
		Limit:                options.Limit,
		Continue:             options.Continue,
		Watch:                options.Watch,
		TimeoutSeconds:       options.TimeoutSeconds,
	}
}
