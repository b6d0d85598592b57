package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var (
	rbacResource = func(resource string) schema.GroupVersionResource {
		return rbacv1.SchemeGroupVersion.WithResource(resource)
	}
	policies   = v1alpha1.GroupVersion.WithResource("tenantaccesspolicies")
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// mutate does one random write in a space, or in another one that decides about it, and describes it.
func (w *world) mutate(ctx context.Context, n tenant.Name, who subject) (string, error) {
	switch pick := w.random.IntN(26); {
	case pick < 6:
		return w.mutateObject(ctx, n)
	case pick >= 23:
		return w.mutatePod(ctx, n)
	case pick >= 20:
		return w.mutateSuspension(ctx)
	case pick < 9:
		return w.mutateRole(ctx, n)
	case pick < 15:
		return w.mutateBinding(ctx, n, who)
	case pick < 17 && n.IsSpace():
		return w.mutatePolicy(ctx, n)
	case pick < 18:
		return w.mutateTenant(ctx)
	default:
		return w.mutateScoped(ctx)
	}
}

func (w *world) oneOf(all []string) string { return all[w.random.IntN(len(all))] }

// some returns one to three of all, each at most once.
func some[T any](random *rand.Rand, all []T) []any {
	result := []any{}
	for _, i := range random.Perm(len(all))[:1+random.IntN(min(3, len(all)))] {
		result = append(result, all[i])
	}
	return result
}

// put creates or replaces an object or, every fourth time, deletes it.
func (w *world) put(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured) (string, error) {
	what := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
	if w.random.IntN(4) == 0 {
		err := client.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return "delete " + what, err
	}
	_, err := client.Create(ctx, o, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Sprintf("create %s: %v", what, o.Object), err
	}
	stored, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return what, err
	}
	o.SetResourceVersion(stored.GetResourceVersion())
	_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	return fmt.Sprintf("change %s: %v", what, o.Object), err
}

func (w *world) mutateObject(ctx context.Context, n tenant.Name) (string, error) {
	kinds := []struct {
		resource schema.GroupVersionResource
		kind     string
	}{{configMaps, "ConfigMap"}, {secrets, "Secret"}, {leases, "Lease"}, {gadgets, "Gadget"}}
	namespaced := true
	switch n {
	case north:
		kinds = append(kinds, struct {
			resource schema.GroupVersionResource
			kind     string
		}{widgets, "Widget"})
	case south:
		if w.random.IntN(3) == 0 {
			kinds, namespaced = append(kinds[:0], struct {
				resource schema.GroupVersionResource
				kind     string
			}{widgets, "Widget"}, struct {
				resource schema.GroupVersionResource
				kind     string
			}{globals, "Global"}), false
		}
	}
	k := kinds[w.random.IntN(len(kinds))]
	if !namespaced {
		return w.put(ctx, w.spaces[n].objects.Resource(k.resource), newObject(k.resource, k.kind, "", w.oneOf(namesOf), nil))
	}
	namespace := w.oneOf(namespacesOf)
	return w.put(ctx, w.spaces[n].objects.Resource(k.resource).Namespace(namespace), newObject(k.resource, k.kind, namespace, w.oneOf(namesOf), nil))
}

// rules are random ones. Some say nothing about lists.
func (w *world) rules() []any {
	rules := []any{}
	for range 1 + w.random.IntN(2) {
		rule := map[string]any{
			"verbs":     some(w.random, []string{"list", "list", "list", "*", "get", "watch"}),
			"apiGroups": some(w.random, []string{"", "", "coordination.k8s.io", "example.com", "*", "rbac.authorization.k8s.io", "events.k8s.io"}),
			"resources": some(w.random, []string{"*", "configmaps", "secrets", "leases", "*", "widgets", "gadgets", "globals", "namespaces", "configmaps/status", "*/status", "events", "roles", "pods", "pods"}),
		}
		if w.random.IntN(3) == 0 {
			rule["resourceNames"] = some(w.random, append([]string{"*", "n0", ""}, namesOf...))
		}
		rules = append(rules, rule)
	}
	return rules
}

func (w *world) mutateRole(ctx context.Context, n tenant.Name) (string, error) {
	content := map[string]any{"rules": w.rules()}
	name := fmt.Sprintf("r%d", w.random.IntN(5))
	if w.random.IntN(2) == 0 {
		namespace := w.oneOf(namespacesOf)
		return w.put(ctx, w.spaces[n].objects.Resource(rbacResource("roles")).Namespace(namespace), newObject(rbacResource("roles"), "Role", namespace, name, content))
	}
	role := newObject(rbacResource("clusterroles"), "ClusterRole", "", name, content)
	switch w.random.IntN(4) {
	case 0: // part of a role that every space has, and of one of the space
		role.SetLabels(map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true", "example.com/aggregated": "true"})
	case 1:
		delete(role.Object, "rules")
		role.SetName("aggregating")
		role.Object["aggregationRule"] = map[string]any{"clusterRoleSelectors": []any{map[string]any{"matchLabels": map[string]any{"example.com/aggregated": "true"}}}}
	}
	return w.put(ctx, w.spaces[n].objects.Resource(rbacResource("clusterroles")), role)
}

// bound are subjects among which who is one more often than others.
func (w *world) bound(who subject) []any {
	subjects := []any{}
	for range 1 + w.random.IntN(2) {
		name := who.user
		switch w.random.IntN(6) {
		case 0:
			subjects = append(subjects, map[string]any{"kind": "Group", "apiGroup": rbacv1.GroupName, "name": fmt.Sprintf("g%d", w.random.IntN(4))})
			continue
		case 1:
			subjects = append(subjects, map[string]any{"kind": "Group", "apiGroup": rbacv1.GroupName, "name": w.oneOf([]string{"system:authenticated", "system:serviceaccounts:n0"})})
			continue
		case 2:
			subjects = append(subjects, map[string]any{"kind": "ServiceAccount", "name": "sa", "namespace": "n0"})
			continue
		case 3:
			name = fmt.Sprintf("u%d", w.random.IntN(11))
		}
		subjects = append(subjects, map[string]any{"kind": "User", "apiGroup": rbacv1.GroupName, "name": name})
	}
	return subjects
}

func (w *world) mutateBinding(ctx context.Context, n tenant.Name, who subject) (string, error) {
	ref := map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": w.oneOf([]string{"r0", "r1", "r2", "r3", "r4", "aggregating", "view", "missing"})}
	// What a binding refers to never changes, so its name says it.
	content := map[string]any{"subjects": w.bound(who), "roleRef": ref}
	if w.random.IntN(5) < 3 {
		if w.random.IntN(2) == 0 {
			ref["kind"], ref["name"] = "Role", fmt.Sprintf("r%d", w.random.IntN(5))
		}
		namespace := w.oneOf(namespacesOf)
		return w.put(ctx, w.spaces[n].objects.Resource(rbacResource("rolebindings")).Namespace(namespace),
			newObject(rbacResource("rolebindings"), "RoleBinding", namespace, fmt.Sprintf("%v-%v-%d", lower(ref["kind"]), ref["name"], w.random.IntN(2)), content))
	}
	return w.put(ctx, w.spaces[n].objects.Resource(rbacResource("clusterrolebindings")),
		newObject(rbacResource("clusterrolebindings"), "ClusterRoleBinding", "", fmt.Sprintf("to-%v-%d", ref["name"], w.random.IntN(2)), content))
}

func lower(kind any) string {
	if kind == "Role" {
		return "role"
	}
	return "clusterrole"
}

// mutatePolicy lets users of another tenant in.
func (w *world) mutatePolicy(ctx context.Context, n tenant.Name) (string, error) {
	others := []string{}
	for _, other := range w.order[1:] {
		if other != n {
			others = append(others, other.String())
		}
	}
	to := w.oneOf(others)
	subject := map[string]any{"tenant": to, "kind": "User", "name": fmt.Sprintf("u%d", w.random.IntN(11))}
	if w.random.IntN(2) == 0 {
		subject["kind"], subject["name"] = "Group", fmt.Sprintf("g%d", w.random.IntN(4))
	}
	rule := map[string]any{
		"verbs": some(w.random, []string{"list", "get", "watch"}), "apiGroups": some(w.random, []string{"", "coordination.k8s.io", "example.com", "*"}),
		"resources":  some(w.random, []string{"configmaps", "secrets", "leases", "*", "gadgets", "widgets"}),
		"namespaces": some(w.random, append([]string{"*"}, namespacesOf...)),
	}
	if w.random.IntN(3) == 0 {
		rule["resourceNames"] = some(w.random, namesOf)
	}
	return w.put(ctx, w.spaces[n].objects.Resource(policies), newObject(policies, "TenantAccessPolicy", "", fmt.Sprintf("p%d", w.random.IntN(3)),
		map[string]any{"spec": map[string]any{"subjects": []any{subject}, "rules": []any{rule}}}))
}

// mutateTenant changes a label by which scopes select tenants.
func (w *world) mutateTenant(ctx context.Context) (string, error) {
	n := w.order[1+w.random.IntN(3)]
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/tier":%q}}}`, w.oneOf([]string{"gold", "iron"}))
	_, err := w.spaces[tenant.System].objects.Resource(v1alpha1.GroupVersion.WithResource("tenants")).Patch(ctx, n.String(), types.MergePatchType, patch, metav1.PatchOptions{})
	return fmt.Sprintf("label %s %s", n, patch), err
}

// mutateSuspension suspends a tenant or, more often, lets it go on.
func (w *world) mutateSuspension(ctx context.Context) (string, error) {
	n := w.order[1+w.random.IntN(3)]
	suspended := w.random.IntN(3) == 0
	w.suspended[n] = suspended
	what := fmt.Sprintf("suspend %s: %v", n, suspended)
	if err := tenantry.SetSpec(ctx, n, "suspended", strconv.FormatBool(suspended)); err != nil {
		return what, err
	}
	Eventually(func() bool { // which takes a moment
		_, err := suite.Client(tenantry.Config(n)).Discovery().ServerVersion()
		return apierrors.IsForbidden(err)
	}).Should(Equal(suspended), what)
	return what, nil
}

// mutatePod creates a pod that mounts a ConfigMap and a Secret, which may not be there, and is its namespace's; or it
// deletes one, or changes its labels.
func (w *world) mutatePod(ctx context.Context, n tenant.Name) (string, error) {
	namespace, i := w.oneOf(namespacesOf), w.random.IntN(len(namesOf))
	pods := w.spaces[n].client.CoreV1().Pods(namespace)
	what := fmt.Sprintf("pod %s/%s", namespace, namesOf[i])
	if w.random.IntN(4) == 0 {
		err := pods.Delete(ctx, namesOf[i], metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return "delete " + what, err
	}
	owner, err := w.spaces[n].client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return what, err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: namesOf[i], OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: namespace, UID: owner.UID}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}, Volumes: []corev1.Volume{
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: namesOf[i]}}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: namesOf[(i+1)%len(namesOf)]}}},
		}},
	}
	_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return "create " + what, err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, w.oneOf(namesOf))
	_, err = pods.Patch(ctx, namesOf[i], types.MergePatchType, patch, metav1.PatchOptions{})
	return "label " + what, err
}

// mutateScoped changes what system users may do in tenants' spaces.
func (w *world) mutateScoped(ctx context.Context) (string, error) {
	objects := w.spaces[tenant.System].objects
	name := w.oneOf(scopedNames)
	if w.random.IntN(3) == 0 {
		return w.put(ctx, objects.Resource(rbacResource("clusterrolebindings")), newObject(rbacResource("clusterrolebindings"), "ClusterRoleBinding", "", name, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": name},
			"subjects": w.bound(subject{user: fmt.Sprintf("u%d", w.random.IntN(11))}),
		}))
	}
	role := newObject(rbacResource("clusterroles"), "ClusterRole", "", name, map[string]any{"rules": w.rules()})
	role.SetAnnotations(map[string]string{tenant.ScopeAnnotation: w.oneOf([]string{"System", "Tenants", "All", "Tenants"})})
	if role.GetAnnotations()[tenant.ScopeAnnotation] != "System" && w.random.IntN(2) == 0 {
		role.SetAnnotations(map[string]string{tenant.ScopeAnnotation: "Tenants", tenant.SelectorAnnotation: "example.com/tier=" + w.oneOf([]string{"gold", "iron"})})
	}
	return w.put(ctx, objects.Resource(rbacResource("clusterroles")), role)
}
