package keystone

import (
	"cmp"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/internal/tenant"
)

// binding is what a RoleBinding or ClusterRoleBinding says.
type binding struct {
	role     rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// wanted are bindings by namespace, empty for ClusterRoleBindings, and name.
type wanted map[client.ObjectKey]binding

// add adds the binding of a group, which is called like the group.
func (w wanted) add(namespace, group, clusterRole string) {
	w[client.ObjectKey{Namespace: namespace, Name: group}] = binding{
		rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		[]rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
	}
}

// keep adds bindings as they are.
func (w wanted) keep(bindings []*rbacv1.RoleBinding) {
	for _, b := range bindings {
		w[client.ObjectKeyFromObject(b)] = binding{b.RoleRef, b.Subjects}
	}
}

// compare adds what is to be changed so that the bindings are those that are wanted.
func (w wanted) compare(result *plan, n string, s space) {
	left := maps.Clone(w)
	settle := func(before client.Object, is binding) {
		key := client.ObjectKeyFromObject(before)
		to, ok := left[key]
		delete(left, key)
		switch {
		case !ok:
			result.add(change{tenant: n, before: before})
		case is.role != to.role || !apiequality.Semantic.DeepEqual(is.subjects, to.subjects):
			result.add(change{tenant: n, before: before, after: to.object(key)})
		}
	}
	for i := range s.bindings {
		settle(&s.bindings[i], binding{s.bindings[i].RoleRef, s.bindings[i].Subjects})
	}
	for i := range s.clusterBindings {
		settle(&s.clusterBindings[i], binding{s.clusterBindings[i].RoleRef, s.clusterBindings[i].Subjects})
	}
	for _, key := range slices.SortedFunc(maps.Keys(left), func(a, b client.ObjectKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		result.add(change{tenant: n, after: left[key].object(key)})
	}
}

// object returns the object at a place.
func (b binding) object(at client.ObjectKey) client.Object {
	meta := metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{tenant.KeystoneLabel: tenant.KeystoneBinding}}
	if at.Namespace == "" {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: b.role, Subjects: b.subjects}
	}
	return &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: b.role, Subjects: b.subjects}
}
