package storage

import (
	"context"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

const etcdPrefix = "/registry"

// backend is an etcd in this process with everything that all resources share.
type backend struct {
	server *etcd.Server
	ranges *Ranges
	counts *Counts
	// histories, if set, bounds what watch caches keep.
	histories *Histories
	// cacheMemory, if set, bounds what custom resources take in watch caches.
	cacheMemory *CacheMemory
	// raw, if set, makes the storage below.
	raw RawFunc
	// defining are the spaces with a definition of widgets, where others share one.
	defining map[tenant.Name]bool
	// decoding, if set, is what decodes custom resources.
	decoding func(runtime.Codec) runtime.Codec
	// transformer, if set, encrypts what is stored from now on.
	transformer value.Transformer
	// transport, if set, tells this etcd from others.
	transport storagebackend.TransportConfig
}

func newBackend(t testing.TB) *backend {
	t.Helper()
	server, err := etcd.Start(t.Context(), etcd.Options{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return &backend{
		server: server,
		ranges: &Ranges{
			Client: func(storagebackend.TransportConfig) (*clientv3.Client, error) { return server.Client(), nil },
			Custom: customGetter{storagebackend.NewDefaultConfig(etcdPrefix, unstructured.UnstructuredJSONScheme)},
		},
		counts: &Counts{}, histories: NewHistories(1 << 30),
	}
}

// keys returns the keys that etcd holds below a prefix.
func (b *backend) keys(t testing.TB, prefix string) []string {
	t.Helper()
	response, err := b.server.Client().Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range response.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// store is the storage of one resource as upstream's registry uses it.
type store struct {
	*Space
	prefix     string
	namespaced bool
	newObject  func() metav1.Object
}

// configMaps and volumes are a resource with namespaces and one without.
func (b *backend) configMaps(t testing.TB, cached bool) *store {
	return b.store(t, schema.GroupResource{Resource: "configmaps"}, true, cached,
		func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} })
}

func (b *backend) volumes(t testing.TB, cached bool) *store {
	return b.store(t, schema.GroupResource{Resource: "persistentvolumes"}, false, cached,
		func() runtime.Object { return &corev1.PersistentVolume{} }, func() runtime.Object { return &corev1.PersistentVolumeList{} })
}

// widgets are custom resources, as the definition of one space has them. Without a space, it is
// that which all spaces share that are not in defining.
func (b *backend) widgets(t testing.TB, only tenant.Name, namespaced bool) *store {
	return b.customs(t, only, namespaced, true)
}

func (b *backend) customs(t testing.TB, only tenant.Name, namespaced, cached bool) *store {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	resource := schema.GroupResource{Group: kind.Group, Resource: "widgets"}
	getter := &RESTOptionsGetter{
		Of: tenant.Everything, Raw: b.server.Storage, Ranges: b.ranges, Counts: b.counts, Uncached: map[schema.GroupResource]bool{resource: !cached},
	}
	if only == "" {
		getter = getter.Shared(func(_ schema.GroupResource, n tenant.Name) bool { return b.defining[n] }, nil)
	} else {
		getter = getter.In(only)
	}
	config := storagebackend.NewDefaultConfig(etcdPrefix, unstructured.UnstructuredJSONScheme)
	if b.decoding != nil {
		config.Codec = b.decoding(config.Codec)
	}
	return b.made(t, getter, config, resource, "/example.com/widgets", namespaced,
		func() runtime.Object {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			return object
		},
		func() runtime.Object {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind.GroupVersion().WithKind("WidgetList"))
			return list
		})
}

// definitions are those of custom resources.
func (b *backend) definitions(t testing.TB) *store {
	getter := &RESTOptionsGetter{Of: tenant.Everything, Raw: b.server.Storage, Ranges: b.ranges, Counts: b.counts, Uncached: map[schema.GroupResource]bool{definitions: true}}
	config := storagebackend.NewDefaultConfig(etcdPrefix, unstructured.UnstructuredJSONScheme)
	return b.made(t, getter, config, definitions, "/apiextensions.k8s.io/customresourcedefinitions", false,
		func() runtime.Object {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(definitions.WithVersion("v1").GroupVersion().WithKind("CustomResourceDefinition"))
			return object
		}, func() runtime.Object { return &unstructured.UnstructuredList{} })
}

func (b *backend) store(t testing.TB, resource schema.GroupResource, namespaced, cached bool, newFunc, newListFunc func() runtime.Object) *store {
	t.Helper()
	getter := &RESTOptionsGetter{
		Of: tenant.Everything, Raw: b.server.Storage, Ranges: b.ranges, Counts: b.counts, Uncached: map[schema.GroupResource]bool{resource: !cached},
	}
	stored, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	config := storagebackend.NewDefaultConfig(etcdPrefix, scheme.Codecs.CodecForVersions(
		stored.Serializer, scheme.Codecs.UniversalDeserializer(), corev1.SchemeGroupVersion, corev1.SchemeGroupVersion))
	return b.made(t, getter, config, resource, "/"+resource.Resource, namespaced, newFunc, newListFunc)
}

func (b *backend) made(t testing.TB, getter *RESTOptionsGetter, config *storagebackend.Config, resource schema.GroupResource,
	prefix string, namespaced bool, newFunc, newListFunc func() runtime.Object) *store {
	t.Helper()
	config.Transformer, config.Transport = b.transformer, b.transport
	getter.Histories, getter.CacheMemory = b.histories, b.cacheMemory
	if b.raw != nil {
		getter.Raw = b.raw
	}
	config.LeaseManagerConfig = etcd3.NewDefaultLeaseManagerConfig()
	made, destroy, err := getter.decorate(resource)(config.ForResource(resource), prefix, keyOf(prefix, namespaced),
		newFunc, newListFunc, attributesOf, storage.IndexerFuncs{"metadata.name": nameOf}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	until.True(t, "the cache is ready", func() bool { return made.ReadinessCheck() == nil })
	return &store{
		Space: made.(*limitedLists).Interface.(*Space), prefix: prefix, namespaced: namespaced,
		newObject: func() metav1.Object { return newFunc().(metav1.Object) },
	}
}

// keyOf returns the key function that upstream's registry gives its decorator.
func keyOf(prefix string, namespaced bool) func(runtime.Object) (string, error) {
	return func(obj runtime.Object) (string, error) {
		accessor, err := meta.Accessor(obj)
		if err != nil {
			return "", err
		}
		if !namespaced {
			return registry.NoNamespaceKeyFunc(context.Background(), prefix, accessor.GetName())
		}
		return registry.NamespaceKeyFunc(request.WithNamespace(context.Background(), accessor.GetNamespace()), prefix, accessor.GetName())
	}
}

// attributesOf returns what upstream selects objects by.
func attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	f := fields.Set{"metadata.name": accessor.GetName()}
	if namespace := accessor.GetNamespace(); namespace != "" {
		f["metadata.namespace"] = namespace
	}
	return accessor.GetLabels(), f, nil
}

// nameOf is by what upstream's cache dispatches the events of config maps and secrets.
func nameOf(obj runtime.Object) string { return obj.(metav1.Object).GetName() }

// in returns the context of a request in a scope.
func (s *store) in(t testing.TB, n tenant.Scope, namespace string) context.Context {
	ctx := tenant.WithScope(t.Context(), n)
	if s.namespaced {
		ctx = request.WithNamespace(ctx, namespace)
	}
	return ctx
}

// key returns the ordinary key of an object.
func (s *store) key(namespace, name string) string {
	if s.namespaced {
		return s.prefix + "/" + namespace + "/" + name
	}
	return s.prefix + "/" + name
}

// label changes an object.
func (s *store) label(t testing.TB, n tenant.Name, namespace, name, value string) runtime.Object {
	t.Helper()
	updated := s.newFunc()
	err := s.GuaranteedUpdate(s.in(t, n.Scope(), namespace), s.key(namespace, name), updated, false, nil,
		func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			input.(metav1.Object).SetLabels(map[string]string{"value": value})
			return input, nil, nil
		}, nil)
	if err != nil {
		t.Fatalf("updating %s/%s in %q: %v", namespace, name, n, err)
	}
	return updated
}

func (s *store) remove(t testing.TB, n tenant.Name, namespace, name string) {
	t.Helper()
	err := s.Delete(s.in(t, n.Scope(), namespace), s.key(namespace, name), s.newFunc(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	if err != nil {
		t.Fatalf("deleting %s/%s in %q: %v", namespace, name, n, err)
	}
}

func (s *store) create(t testing.TB, n tenant.Name, namespace, name string) runtime.Object {
	t.Helper()
	object := s.newObject()
	object.SetName(name)
	if s.namespaced {
		object.SetNamespace(namespace)
	}
	created := s.newFunc()
	if err := s.Create(s.in(t, n.Scope(), namespace), s.key(namespace, name), object.(runtime.Object), created, 0); err != nil {
		t.Fatalf("creating %s/%s in %q: %v", namespace, name, n, err)
	}
	return created
}

// list returns the objects of a list as "tenant:namespace/name", and the token
// by which it goes on.
func (s *store) list(t testing.TB, n tenant.Scope, namespace string, change ...func(*storage.ListOptions)) ([]string, string) {
	t.Helper()
	found, token, err := s.tryList(t, n, namespace, change...)
	if err != nil {
		t.Fatalf("listing %q in %q: %v", namespace, n, err)
	}
	return found, token
}

func (s *store) tryList(t testing.TB, n tenant.Scope, namespace string, change ...func(*storage.ListOptions)) ([]string, string, error) {
	ctx := s.in(t, n, namespace)
	list := s.newListFunc()
	if err := s.GetList(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(change...), list); err != nil {
		return nil, "", err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	var found []string
	err = meta.EachListItem(list, func(obj runtime.Object) error {
		found = append(found, describe(obj))
		return nil
	})
	return found, accessor.GetContinue(), err
}

func listOptions(change ...func(*storage.ListOptions)) storage.ListOptions {
	options := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), GetAttrs: attributesOf,
	}}
	for _, change := range change {
		change(&options)
	}
	return options
}

// from makes a list or watch one at a resource version.
func from(version string, match metav1.ResourceVersionMatch) func(*storage.ListOptions) {
	return func(o *storage.ListOptions) { o.ResourceVersion, o.ResourceVersionMatch = version, match }
}

// named selects objects as a watch of one object does.
func named(name string) func(*storage.ListOptions) {
	return func(o *storage.ListOptions) {
		o.Predicate.Field = fields.OneTermEqualSelector("metadata.name", name)
		o.Predicate.IndexFields = []string{"metadata.name"}
	}
}

// page makes a list one of a few objects.
func page(limit int64, token string) func(*storage.ListOptions) {
	return func(o *storage.ListOptions) { o.Predicate.Limit, o.Predicate.Continue = limit, token }
}

func (s *store) watch(t testing.TB, n tenant.Scope, namespace string, change ...func(*storage.ListOptions)) watch.Interface {
	t.Helper()
	ctx := s.in(t, n, namespace)
	watcher, err := s.Watch(ctx, registry.NamespaceKeyRootFunc(ctx, s.prefix), listOptions(change...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	return watcher
}

// describe names an object.
func describe(obj runtime.Object) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err.Error()
	}
	n, err := tenantOf(obj)
	if err != nil {
		return err.Error()
	}
	return string(n) + ":" + strings.TrimPrefix(accessor.GetNamespace()+"/"+accessor.GetName(), "/")
}

func version(t testing.TB, obj runtime.Object) string {
	t.Helper()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	return accessor.GetResourceVersion()
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
