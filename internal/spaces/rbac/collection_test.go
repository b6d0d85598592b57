package rbac

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

var toView = map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}

// TestChangesAreIndependentOfTheirNumber checks, by what is allocated, that the index of four
// times as many objects copies and compares four times as much, and not sixteen times.
func TestChangesAreIndependentOfTheirNumber(t *testing.T) {
	roleBinding := func(i int) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint(i)}}
	}
	for name, set := range map[string]func(i *Index, n int){
		"RoleBindings": func(i *Index, n int) { i.setRoleBinding(roleBinding(n), false) },
		"ClusterRoleBindings": func(i *Index, n int) {
			i.setClusterRoleBinding(clusterBinding(fmt.Sprintf("a|%d", n), "u", "r"), false)
		},
		"ClusterRoleBindings of the system space": func(i *Index, n int) {
			i.setClusterRoleBinding(clusterBinding(fmt.Sprint(n), "u", "scoped"), false)
		},
		"scopes": func(i *Index, n int) {
			i.setClusterRoleBinding(clusterBinding(fmt.Sprint(n), "u", fmt.Sprint(n)), false)
			i.setClusterRole(scoped(clusterRole(fmt.Sprint(n), nil), ScopeTenants, ""), false)
		},
		"aggregated ClusterRoles": func(i *Index, n int) {
			i.setClusterRole(clusterRole(fmt.Sprintf("a|%d", n), toView, rule("get", "", fmt.Sprint(n))), false)
		},
		"aggregated ClusterRoles without rules": func(i *Index, n int) {
			i.setClusterRole(clusterRole(fmt.Sprintf("a|%d", n), toView), false)
		},
		"a ClusterRole beside others": func(i *Index, n int) {
			i.setClusterRole(clusterRole(fmt.Sprintf("a|%d", n), nil), false)
			i.setClusterRole(clusterRole("a|x", toView), false)
			hasRule(t, i, "a", "view", rule("get", "", "nothing"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIndex(nil)
			i.setClusterRole(scoped(clusterRole("scoped", nil), ScopeTenants, ""), false)
			i.setClusterRole(clusterRole("a|x", toView), false)
			hasRule(t, i, "a", "view", rule("get", "", "nothing")) // makes what there is once
			set(i, 0)
			index := func(n int) uint64 {
				i := newIndex(nil)
				i.setClusterRole(scoped(clusterRole("scoped", nil), ScopeTenants, ""), false)
				return allocated(func() {
					for each := range n {
						set(i, each)
					}
				})
			}
			if few, many := index(200), index(800); many > 8*few {
				t.Errorf("200 changes allocate %d bytes, and 800 %d", few, many)
			}
		})
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestAnswersAllocateNothing checks that nothing is computed again unless something changes.
func TestAnswersAllocateNothing(t *testing.T) {
	i := newIndex(nil)
	i.setClusterRole(clusterRole("a|x", toView, rule("get", "", "widgets")), false)
	i.setClusterRole(scoped(clusterRole("scoped", nil), ScopeTenants, ""), false)
	i.setRoleBinding(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "x"}}, false)
	i.setClusterRoleBinding(clusterBinding("a|x", "u", "view"), false)
	i.setClusterRoleBinding(clusterBinding("x", "u", "scoped"), false)
	a, system := in("a"), in(tenant.System)
	for name, read := range map[string]func() error{
		"an aggregated role":  func() error { _, err := i.GetClusterRole(a, "view"); return err },
		"RoleBindings":        func() error { _, err := i.ListRoleBindings(a, "ns"); return err },
		"ClusterRoleBindings": func() error { _, err := i.ListClusterRoleBindings(a); return err },
		"those of the system": func() error { _, err := i.ListClusterRoleBindings(system); return err },
		"those with scopes":   func() error { _, err := platform{i}.ListClusterRoleBindings(a); return err },
	} {
		t.Run(name, func(t *testing.T) {
			if n := testing.AllocsPerRun(100, func() {
				if err := read(); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("an answer allocates %v times", n)
			}
		})
	}
}

// TestAggregationKeepsNobodyElseWaiting holds the aggregation in one space up, and checks that
// what is written meanwhile, there or elsewhere, holds for whoever asks next.
func TestAggregationKeepsNobodyElseWaiting(t *testing.T) {
	i := newIndex(nil)
	extra := rule("get", "example.org", "widgets")
	var held atomic.Bool
	began, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	aggregate := i.aggregated.read
	i.aggregated.read = func(n tenant.Name, own []*rbacv1.ClusterRole) map[string]*rbacv1.ClusterRole {
		if held.CompareAndSwap(false, true) {
			close(began)
			<-goOn
		}
		return aggregate(n, own)
	}
	i.setClusterRole(clusterRole("a|other", toView, rule("get", "", "others")), false)
	i.setClusterRole(clusterRole("a|x", toView, extra), false)
	go func() {
		defer close(ended)
		if !hasRule(t, i, "a", "view", extra) {
			t.Error("who asked before the rule was revoked does not get it")
		}
	}()
	<-began
	i.setClusterRole(clusterRole("b|x", toView, extra), false)
	if !hasRule(t, i, "b", "view", extra) {
		t.Error("another space lacks the rule of its own role")
	}
	i.setClusterRole(clusterRole("a|x", nil, extra), false)
	for _, when := range []string{"before", "after"} {
		if hasRule(t, i, "a", "view", extra) {
			t.Errorf("the rule is revoked and holds %s the first aggregation has ended", when)
		}
		if when == "before" {
			close(goOn)
			<-ended
		}
	}
}

// TestRandomChanges compares an index that has seen changes, and was read between them, with one
// that has only seen what is left.
func TestRandomChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	spaces := []tenant.Name{tenant.System, "a", "b"}
	names := []string{"x", "y", "view", "edit", "system:discovery"}
	labels := []map[string]string{nil, toView, {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}
	i := newIndex(nil)
	kept := map[string]func(*Index){}
	for range 2000 {
		n, name, deleted := spaces[random.IntN(len(spaces))], names[random.IntN(len(names))], random.IntN(3) == 0
		flat := tenant.Flatten(n, name).String()
		var set func(i *Index, deleted bool)
		kind := random.IntN(3)
		switch kind {
		case 0:
			role := clusterRole(flat, labels[random.IntN(len(labels))], rule("get", "", fmt.Sprint(random.IntN(4))))
			if random.IntN(2) == 0 {
				role = scoped(role, ScopeTenants, "")
			}
			set = func(i *Index, deleted bool) { i.setClusterRole(role, deleted) }
		case 1:
			binding := clusterBinding(flat, "u", names[random.IntN(len(names))])
			set = func(i *Index, deleted bool) { i.setClusterRoleBinding(binding, deleted) }
		case 2:
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Flatten(n, "ns").String(), Name: name}}
			set = func(i *Index, deleted bool) { i.setRoleBinding(binding, deleted) }
		}
		set(i, deleted)
		key := fmt.Sprint(kind, flat)
		if delete(kept, key); !deleted {
			kept[key] = func(i *Index) { set(i, false) }
		}
		if random.IntN(15) > 0 {
			continue
		}
		fresh := newIndex(nil)
		for _, set := range kept {
			set(fresh)
		}
		if diff := cmp.Diff(everything(t, fresh, spaces, names), everything(t, i, spaces, names)); diff != "" {
			t.Fatalf("-fresh +changed:\n%s", diff)
		}
	}
}

// everything returns what an index answers.
func everything(t *testing.T, i *Index, spaces []tenant.Name, names []string) map[string]any {
	t.Helper()
	answers := map[string]any{}
	for _, n := range spaces {
		for _, name := range append(names, "admin") {
			role, _ := i.GetClusterRole(in(n), name)
			answers[fmt.Sprint(n, " role ", name)] = role
		}
		cluster, _ := i.ListClusterRoleBindings(in(n))
		scoped, _ := platform{i}.ListClusterRoleBindings(in(n))
		bindings, _ := i.ListRoleBindings(in(n), "ns")
		answers[n.String()] = []any{byName(cluster), byName(scoped), byName(bindings)}
	}
	return answers
}

func byName[T metav1.Object](objects []T) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
}
