package storage

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// fill creates two objects in each namespace of each space and returns their
// descriptions and the version of the last.
func fill(t *testing.T, s *store) (all []string, last string) {
	t.Helper()
	for _, n := range spaces {
		for _, namespace := range namespaces {
			if !s.namespaced && namespace != namespaces[0] {
				continue
			}
			for _, name := range []string{"foo", "x"} {
				object := s.create(t, n, namespace, name)
				all, last = append(all, describe(object)), version(t, object)
			}
		}
	}
	return all, last
}

// within returns which of all objects are in a namespace (if not empty) of n.
func within(all []string, n tenant.Scope, namespace string) []string {
	var found []string
	for _, description := range all {
		for _, owner := range spaces {
			if n != owner.Scope() && n != tenant.Everything && (n != tenant.All || owner == tenant.System) {
				continue
			}
			for _, name := range []string{"foo", "x"} {
				for _, in := range namespaces {
					if namespace != "" && namespace != in {
						continue
					}
					if description == string(owner)+":"+in+"/"+name || description == string(owner)+":"+name {
						found = append(found, description)
					}
				}
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestListsHoldOneSpace(t *testing.T) {
	b := newBackend(t)
	for _, namespaced := range []bool{true, false} {
		make := b.volumes
		if namespaced {
			make = b.configMaps
		}
		stores := map[string]*store{"cache": make(t, true), "etcd": make(t, false)}
		all, last := fill(t, stores["cache"])
		for where, s := range stores {
			for at, change := range map[string]func(*storage.ListOptions){
				"latest":         from("", ""),
				"not older than": from(last, metav1.ResourceVersionMatchNotOlderThan),
				"exact":          from(last, metav1.ResourceVersionMatchExact),
			} {
				for _, namespace := range append([]string{""}, namespaces...) {
					if !namespaced && namespace != "" {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s/%q", s.prefix, where, at, namespace), func(t *testing.T) {
						for _, n := range append([]tenant.Scope{tenant.All, tenant.Everything}, scopes(spaces)...) {
							found, _ := s.list(t, n, namespace, change)
							if diff := cmp.Diff(within(all, n, namespace), sorted(found)); diff != "" {
								t.Errorf("in %q:\n%s", n, diff)
							}
						}
					})
				}
			}
		}
	}
}

// Selectors on the namespace mean that of the object, though the cache is told
// the space in its place.
func TestListsByNamespaceAsSelector(t *testing.T) {
	b := newBackend(t)
	for _, cached := range []bool{true, false} {
		s := b.configMaps(t, cached)
		if cached {
			fill(t, s)
		}
		for _, n := range append([]tenant.Scope{tenant.All}, scopes(spaces)...) {
			for _, namespace := range []string{"foo", "system", "acme"} {
				selected, _ := s.list(t, n, "", func(o *storage.ListOptions) {
					o.Predicate.Field = fields.OneTermEqualSelector("metadata.namespace", namespace)
				})
				listed, _ := s.list(t, n, namespace)
				if diff := cmp.Diff(sorted(listed), sorted(selected)); diff != "" {
					t.Errorf("namespace %q of %q, cached=%v:\n%s", namespace, n, cached, diff)
				}
			}
		}
	}
}

// Pages may come from the cache or from etcd, each by the token of the other:
// caches forget, and replicas remember different things.
func TestPages(t *testing.T) {
	b := newBackend(t)
	for _, namespaced := range []bool{true, false} {
		make := b.volumes
		if namespaced {
			make = b.configMaps
		}
		cached, etcd := make(t, true), make(t, false)
		all, _ := fill(t, cached)
		for name, order := range map[string][]*store{
			"cache": {cached}, "etcd": {etcd}, "cache, then etcd": {cached, etcd}, "etcd, then cache": {etcd, cached},
		} {
			for _, namespace := range []string{"", "foo"} {
				if !namespaced && namespace != "" {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%q", cached.prefix, name, namespace), func(t *testing.T) {
					for _, n := range append([]tenant.Scope{tenant.All, tenant.Everything}, scopes(spaces)...) {
						var found []string
						token := ""
						for i := 0; i == 0 || token != ""; i++ {
							items, next := order[i%len(order)].list(t, n, namespace, page(1, token))
							found, token = append(found, items...), next
						}
						if diff := cmp.Diff(within(all, n, namespace), sorted(found)); diff != "" {
							t.Errorf("in %q:\n%s", n, diff)
						}
					}
				})
			}
		}
	}
}

func TestRangesCountOneSpace(t *testing.T) {
	b := newBackend(t)
	fill(t, b.configMaps(t, false))
	fill(t, b.volumes(t, false))
	for _, n := range spaces[1:] {
		counts, err := b.ranges.Count(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"configmaps": int64(2 * len(namespaces)), "persistentvolumes": 2}
		if diff := cmp.Diff(want, counts); diff != "" {
			t.Errorf("of %q:\n%s", n, diff)
		}
	}
	if counts, err := b.ranges.Count(t.Context(), "fo"); err != nil || len(counts) > 0 {
		t.Errorf("of a tenant without objects: %v, %v", counts, err)
	}
	for _, n := range []tenant.Name{"", tenant.System, tenant.Name(tenant.All), tenant.Name(tenant.Everything)} {
		if _, err := b.ranges.Count(t.Context(), n); err == nil || !strings.Contains(err.Error(), "not a tenant with a space of its own") {
			t.Errorf("%q is counted as if it were a tenant: %v", n, err)
		}
	}
}
