package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Each space decides whether its widgets have namespaces, so that the keys of
// those of a tenant look like those of a system namespace of the tenant's name.
func TestRangesCountCustomResources(t *testing.T) {
	for encryption, transformer := range map[string]value.Transformer{"none": nil, "aesgcm": transformers(t)["aesgcm"]} {
		for _, order := range [][]tenant.Name{{"foo", "foobar", tenant.System}, {tenant.System, "foobar", "foo"}} {
			t.Run(fmt.Sprintf("%s/%s first", encryption, order[0]), func(t *testing.T) {
				b := newBackend(t)
				b.transformer = transformer
				for _, n := range order {
					s := b.widgets(t, n, n != "foo")
					s.create(t, n, "foo", "first-"+string(n))
					s.create(t, n, "foo", "second-"+string(n))
				}
				for _, n := range []tenant.Name{"foo", "foobar"} {
					counts, err := b.ranges.Count(t.Context(), n)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(map[string]int64{"widgets.example.com": 2}, counts); diff != "" {
						t.Errorf("of %q:\n%s", n, diff)
					}
				}
				if counts, err := b.ranges.Count(t.Context(), "other"); err != nil || len(counts) > 0 {
					t.Errorf("of a tenant without widgets: %v, %v", counts, err)
				}
			})
		}
	}
}

// Resources may be stored in etcds of their own (--etcd-servers-overrides).
func TestRangesCountInEveryEtcd(t *testing.T) {
	main, other := newBackend(t), newBackend(t)
	main.transport.ServerList, other.transport.ServerList = []string{"main"}, []string{"other"}
	ranges := &Ranges{Custom: main.ranges.Custom, Client: func(transport storagebackend.TransportConfig) (*clientv3.Client, error) {
		if len(transport.ServerList) > 0 && transport.ServerList[0] == "other" {
			return other.server.Client(), nil
		}
		return main.server.Client(), nil
	}}
	main.ranges, other.ranges = ranges, ranges
	main.configMaps(t, false).create(t, "foo", "foo", "x")
	other.volumes(t, false).create(t, "foo", "", "x")
	counts, err := ranges.Count(t.Context(), "foo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"configmaps": 1, "persistentvolumes": 1}, counts); diff != "" {
		t.Error(diff)
	}
}

// In etcd, two objects have the same key here: a widget without namespace of the
// tenant foo, and one in the system namespace foo. Whoever comes second is refused,
// and neither sees or changes the other's.
func TestCustomResourcesOfOneKey(t *testing.T) {
	for _, order := range [][]tenant.Name{{"foo", tenant.System}, {tenant.System, "foo"}} {
		t.Run(string(order[0])+" first", func(t *testing.T) {
			b := newBackend(t)
			first, second := b.widgets(t, order[0], order[0] != "foo"), b.widgets(t, order[1], order[1] != "foo")
			first.create(t, order[0], "foo", "x")
			ctx, key := second.in(t, order[1].Scope(), "foo"), second.key("foo", "x")
			object := second.newObject()
			object.SetName("x")
			if err := second.Create(ctx, key, object.(runtime.Object), second.newFunc(), 0); !storage.IsExist(err) {
				t.Errorf("created: %v", err)
			}
			if err := second.Get(ctx, key, storage.GetOptions{}, second.newFunc()); !storage.IsNotFound(err) {
				t.Errorf("read: %v", err)
			}
			if err := second.Delete(ctx, key, second.newFunc(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); !storage.IsNotFound(err) {
				t.Errorf("deleted: %v", err)
			}
			if err := second.GuaranteedUpdate(ctx, key, second.newFunc(), false, nil, func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				return input, nil, nil
			}, nil); !storage.IsNotFound(err) {
				t.Errorf("updated: %v", err)
			}
			if found, _ := second.list(t, order[1].Scope(), ""); len(found) > 0 {
				t.Errorf("listed %v", found)
			}
			if found, _ := first.list(t, order[0].Scope(), ""); len(found) != 1 {
				t.Errorf("of the first is left %v", found)
			}
		})
	}
}

// customGetter says how custom resources are stored, as upstream's does.
type customGetter struct{ config *storagebackend.Config }

func (g customGetter) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{StorageConfig: g.config.ForResource(resource), ResourcePrefix: resource.Group + "/" + resource.Resource}, nil
}

// A server counts custom resources that it was never asked for.
func TestRangesLearnDefinitions(t *testing.T) {
	for encryption, transformer := range map[string]value.Transformer{"none": nil, "aesgcm": transformers(t)["aesgcm"]} {
		t.Run(encryption, func(t *testing.T) {
			writer := newBackend(t)
			writer.transformer = transformer
			for _, n := range []tenant.Name{"foo", "bar", tenant.System} {
				writer.definitions(t).create(t, n, "", "widgets.example.com")
				writer.widgets(t, n, true).create(t, n, "foo", "x")
			}
			config := storagebackend.NewDefaultConfig(etcdPrefix, unstructured.UnstructuredJSONScheme)
			config.Transformer = transformer
			reader := &backend{server: writer.server, transformer: transformer, counts: &Counts{},
				ranges: &Ranges{Client: writer.ranges.Client, Custom: customGetter{config}}}
			reader.definitions(t)
			want := map[string]int64{"widgets.example.com": 1, "customresourcedefinitions.apiextensions.k8s.io": 1}
			for _, n := range []tenant.Name{"foo", "bar"} {
				counts, err := reader.ranges.Count(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, counts); diff != "" {
					t.Errorf("of %q:\n%s", n, diff)
				}
			}
			if counts, err := reader.ranges.Count(t.Context(), "other"); err != nil || len(counts) > 0 {
				t.Errorf("of a tenant without widgets: %v, %v", counts, err)
			}
		})
	}
}

// A server counts custom resources whose definition has gone, and which it was never asked for.
func TestRangesLearnWithoutDefinitions(t *testing.T) {
	b := newBackend(t)
	b.configMaps(t, false)
	b.definitions(t)
	for _, key := range []string{
		"/masterleases/127.0.0.1", "/aaa/foo/x", "/aaa/foo/y", "/zzz", // what is no resource
		"/apiextensions.k8s.io/others/foo/x", // a built-in group
		"/example.com/gadgets/foobar/x", "/example.com/widgets/foo/x", "/example.com/widgets/foo/y", "/example.com/zones/foo/x",
		"/example.org/widgets/foo/default/x",
	} {
		if _, err := b.server.Client().Put(t.Context(), etcdPrefix+key, `{"metadata":{"annotations":{"`+storedTenant+`":"foo"}}}`); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int64{"widgets.example.com": 2, "zones.example.com": 1, "widgets.example.org": 1}
	for range 2 { // the second time, they are known
		counts, err := b.ranges.Count(t.Context(), "foo")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Error(diff)
		}
	}
	if counts, err := b.ranges.Count(t.Context(), "other"); err != nil || len(counts) > 0 {
		t.Errorf("of a tenant without any: %v, %v", counts, err)
	}
}

// What another count learns while this one runs is counted, too.
func TestRangesLearnMeanwhile(t *testing.T) {
	b := newBackend(t)
	b.configMaps(t, false)
	b.definitions(t)
	if _, err := b.server.Client().Put(t.Context(), etcdPrefix+"/example.com/widgets/foo/x", `{"metadata":{"annotations":{"`+storedTenant+`":"foo"}}}`); err != nil {
		t.Fatal(err)
	}
	connect, learned := b.ranges.Client, false
	b.ranges.Client = func(transport storagebackend.TransportConfig) (*clientv3.Client, error) {
		if !learned {
			learned = true
			if err := b.ranges.Learn(schema.GroupResource{Group: "example.com", Resource: "widgets"}); err != nil {
				t.Error(err)
			}
		}
		return connect(transport)
	}
	counts, err := b.ranges.Count(t.Context(), "foo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"widgets.example.com": 1}, counts); diff != "" {
		t.Error(diff)
	}
}

// What is large is read in small pages, all of it.
func TestRangesStored(t *testing.T) {
	b := newBackend(t)
	maps, volumes := b.configMaps(t, false), b.volumes(t, false)
	var bytes int64
	for i := range 3 * smallPage {
		object := maps.newObject().(*corev1.ConfigMap)
		object.Name, object.Namespace = fmt.Sprintf("x-%d", i), "default"
		object.Data = map[string]string{"large": strings.Repeat("x", i%2*pageBytes/8)}
		if err := maps.Create(maps.in(t, "foo", "default"), maps.key("default", object.Name), object, maps.newFunc(), 0); err != nil {
			t.Fatal(err)
		}
	}
	volumes.create(t, "foo", "", "ignored")
	volumes.create(t, "bar", "", "x")
	for _, key := range b.keys(t, etcdPrefix+"/configmaps/foo/") {
		response, err := b.server.Client().Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		bytes += int64(len(response.Kvs[0].Value))
	}
	objects, stored, err := b.ranges.Stored(t.Context(), "foo", func(resource schema.GroupResource, _ string) bool { return resource.Resource == "configmaps" })
	if err != nil {
		t.Fatal(err)
	}
	if objects != 3*smallPage || stored != bytes {
		t.Errorf("got %d objects with %d bytes, want %d with %d", objects, stored, 3*smallPage, bytes)
	}
}
