package storage

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// spaces and namespaces are prefixes of each other and called alike.
var (
	spaces     = []tenant.Name{tenant.System, "foo", "foobar", "a", "a-b", "s", "t"}
	namespaces = []string{"foo", "foobar", "a", "a-b", "s", "t"}
)

func scopes(names []tenant.Name) []tenant.Scope {
	result := make([]tenant.Scope, len(names))
	for i, n := range names {
		result[i] = n.Scope()
	}
	return result
}

// tableKey is the design's table of keys.
func tableKey(resource string, n tenant.Name, namespace, name string) string {
	key := etcdPrefix + "/" + resource + "/"
	if n != tenant.System {
		key += string(n) + "/"
	}
	if namespace != "" {
		key += namespace + "/"
	}
	return key + name
}

func TestKeysInEtcd(t *testing.T) {
	b := newBackend(t)
	for _, cached := range []bool{true, false} {
		t.Run(fmt.Sprintf("cached=%v", cached), func(t *testing.T) {
			configMaps, volumes := b.configMaps(t, cached), b.volumes(t, cached)
			var want []string
			for _, n := range spaces {
				for _, namespace := range namespaces {
					name := fmt.Sprintf("object-%v", cached)
					configMaps.create(t, n, namespace, name)
					want = append(want, tableKey("configmaps", n, namespace, name))
				}
				// A name like that of a tenant is no tenant.
				name := fmt.Sprintf("foo-%v", cached)
				volumes.create(t, n, "", name)
				want = append(want, tableKey("persistentvolumes", n, "", name))
			}
			found := map[string]bool{}
			for _, key := range b.keys(t, etcdPrefix) {
				found[key] = true
			}
			for _, key := range want {
				if !found[key] {
					t.Errorf("no object at %q", key)
				}
				delete(found, key)
			}
			if cached && len(found) > 0 {
				t.Errorf("objects at other keys: %v", found)
			}
		})
	}
}

func TestObjectsAreReadWhereTheyWereWritten(t *testing.T) {
	b := newBackend(t)
	for _, cached := range []bool{true, false} {
		for _, resourceVersion := range []string{"", "0"} {
			t.Run(fmt.Sprintf("cached=%v version=%q", cached, resourceVersion), func(t *testing.T) {
				s := b.configMaps(t, cached)
				name := fmt.Sprintf("read-%v-%s", cached, resourceVersion)
				last := ""
				for _, n := range spaces {
					if n != "foo" { // which has none
						last = version(t, s.create(t, n, "foo", name))
					}
				}
				if resourceVersion == "0" && cached {
					resourceVersion = last // at least: the cache may be behind
				}
				for _, n := range spaces {
					object := &corev1.ConfigMap{}
					err := s.Get(s.in(t, n.Scope(), "foo"), s.key("foo", name), storage.GetOptions{ResourceVersion: resourceVersion}, object)
					switch {
					case n == "foo":
						if !storage.IsNotFound(err) {
							t.Errorf("in %q: %v, %v", n, describe(object), err)
						}
					case err != nil || describe(object) != string(n)+":foo/"+name:
						t.Errorf("in %q: %v, %v", n, describe(object), err)
					}
				}
			})
		}
	}
}

func TestWithoutTenantThereIsNoStorage(t *testing.T) {
	b := newBackend(t)
	s := b.configMaps(t, true)
	s.create(t, tenant.System, "foo", "object")
	key, ctx := s.key("foo", "object"), t.Context()
	update := func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		return input, nil, nil
	}
	for name, call := range map[string]func(*corev1.ConfigMap) error{
		"create": func(o *corev1.ConfigMap) error { return s.Create(ctx, s.key("foo", "other"), o, o, 0) },
		"get":    func(o *corev1.ConfigMap) error { return s.Get(ctx, key, storage.GetOptions{}, o) },
		"update": func(o *corev1.ConfigMap) error { return s.GuaranteedUpdate(ctx, key, o, false, nil, update, nil) },
		"delete": func(o *corev1.ConfigMap) error {
			return s.Delete(ctx, key, o, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		},
		"list": func(*corev1.ConfigMap) error {
			return s.GetList(ctx, s.prefix, listOptions(), &corev1.ConfigMapList{})
		},
		"watch": func(*corev1.ConfigMap) error {
			_, err := s.Watch(ctx, s.prefix, listOptions())
			return err
		},
	} {
		if err := call(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: "other"}}); err == nil {
			t.Errorf("%s without a tenant succeeds", name)
		}
	}
	if diff := cmp.Diff([]string{etcdPrefix + "/configmaps/foo/object"}, b.keys(t, etcdPrefix)); diff != "" {
		t.Error(diff)
	}
}

// FuzzKeys checks that the cache key made of a request is the one made of the
// object that it stores, that both lead to the key of the design's table and
// back to the space, and that two objects share no key.
func FuzzKeys(f *testing.F) {
	f.Add("acme", "default", "web", "other", "default", "web", true)
	f.Add("foo", "bar", "x", "system", "foo", "bar", true)
	f.Add("foo", "", "x", "system", "", "foo", false)
	f.Add("s", "t", "s", "t", "s", "t", true)
	f.Add("a", "b", "c", "a-b", "b", "c", true)
	f.Add("system", "a", "b", "a", "b", "c", true)
	f.Fuzz(func(t *testing.T, firstSpace, firstNamespace, firstName, secondSpace, secondNamespace, secondName string, namespaced bool) {
		first, ok := etcdKeyOf(t, firstSpace, firstNamespace, firstName, namespaced)
		if !ok {
			t.Skip("no valid names")
		}
		second, ok := etcdKeyOf(t, secondSpace, secondNamespace, secondName, namespaced)
		if !ok {
			t.Skip("no valid names")
		}
		same := firstSpace == secondSpace && firstName == secondName && (!namespaced || firstNamespace == secondNamespace)
		if (first == second) != same {
			t.Errorf("%q/%q/%q and %q/%q/%q are at %q and %q", firstSpace, firstNamespace, firstName, secondSpace, secondNamespace, secondName, first, second)
		}
	})
}

func etcdKeyOf(t *testing.T, space, namespace, name string, namespaced bool) (string, bool) {
	n, err := tenant.Parse(space)
	// Most kinds have subdomains as names; those of RBAC may be any segment of a path.
	if err != nil || len(validation.IsDNS1123Subdomain(name)) > 0 ||
		namespaced && len(validation.IsDNS1123Label(namespace)) > 0 {
		return "", false
	}
	if !namespaced {
		namespace = ""
	}
	const prefix = "/registered/"
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	ordinary, err := keyOf("/registered", namespaced)(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := setTenant(object, n); err != nil {
		t.Fatal(err)
	}
	ofObject, err := cacheKeyOf(prefix, keyOf("/registered", namespaced), object)
	if err != nil {
		t.Fatal(err)
	}
	s := &Space{options: RESTOptionsGetter{Of: tenant.Everything}, resourcePrefix: prefix}
	_, ofRequest, err := s.single(tenant.WithSpace(t.Context(), n), ordinary)
	if err != nil || ofRequest != ofObject {
		t.Errorf("cache key of the request %q, %v, of the object %q", ofRequest, err, ofObject)
	}
	key, owner := (&etcdKeys{resourcePrefix: prefix}).key(ofRequest)
	if owner != n.Scope() {
		t.Errorf("%q belongs to %q, want %q", ofRequest, owner, n)
	}
	if want := tableKey("registered", n, namespace, name); etcdPrefix+key != want {
		t.Errorf("etcd key %q, want %q", etcdPrefix+key, want)
	}
	return key, true
}
