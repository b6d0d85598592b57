package hostpublish

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// PublisherUser is the operator's user in system spaces that writes copies. It may write and
// publish the kinds that the ControlPlane publishes, and nothing else.
const PublisherUser = "tenantry-host-publisher"

// Space is the system space of a ControlPlane.
type Space struct {
	// Admin gives the publisher its rights, and deletes copies.
	Admin client.Client
	// Publisher writes copies.
	Publisher client.Client
}

// newSpace returns the system space with clients of the operator's user and of PublisherUser. The
// kinds are those of the host: the space is not asked.
func newSpace(admin, publisher *rest.Config, mapper meta.RESTMapper) (*Space, error) {
	s := &Space{}
	for config, made := range map[*rest.Config]*client.Client{admin: &s.Admin, publisher: &s.Publisher} {
		c, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
		if err != nil {
			return nil, fmt.Errorf("creating the client: %w", err)
		}
		*made = client.WithFieldOwner(c, PublisherUser)
	}
	return s, nil
}

// authorize gives the publisher the rights that it needs for some kinds, and no others.
func (s *Space) authorize(ctx context.Context, namespace string, all []*kind) error {
	everywhere, within := rulesFor(all)
	name := metav1.ObjectMeta{Name: PublisherUser}
	there := metav1.ObjectMeta{Name: PublisherUser, Namespace: namespace}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: PublisherUser}}
	cluster, role := &rbacv1.ClusterRole{ObjectMeta: name}, &rbacv1.Role{ObjectMeta: there}
	clusterBinding, binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name}, &rbacv1.RoleBinding{ObjectMeta: there}
	for object, set := range map[client.Object]func(){
		cluster: func() { cluster.Rules, cluster.AggregationRule = everywhere, nil },
		role:    func() { role.Rules = within },
		clusterBinding: func() {
			clusterBinding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: PublisherUser}
			clusterBinding.Subjects = subjects
		},
		binding: func() {
			binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: PublisherUser}
			binding.Subjects = subjects
		},
	} {
		_, err := controllerutil.CreateOrUpdate(ctx, s.Admin, object, func() error { set(); return nil })
		if apierrors.IsNotFound(err) {
			return problemf("spec.publish.namespace: the system space has no namespace %q: create it there", namespace)
		}
		if err != nil {
			return fmt.Errorf("giving user %q its rights: %T: %w", PublisherUser, object, err)
		}
	}
	return s.revokeElsewhere(ctx, namespace)
}

// rulesFor returns what the publisher may in the whole system space, and in the one namespace.
func rulesFor(all []*kind) (everywhere, within []rbacv1.PolicyRule) {
	for _, k := range all {
		groups, resources := []string{k.Group}, []string{k.Resource}
		write, publish := []string{"get", "create", "update"}, []string{"publish"}
		switch k.GroupResource() {
		case schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}:
			write = append(write, "escalate") // it has not the rights that it writes
		case schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}, schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}:
			everywhere = append(everywhere, rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"roles", "clusterroles"}, Verbs: []string{"bind"}})
		}
		if k.namespaced {
			within = append(within, rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: write})
		} else {
			publish = append(publish, write...)
		}
		everywhere = append(everywhere, rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: publish})
	}
	return everywhere, within
}

// put makes a copy as it is to be, unless there is something in its place that is not the host's.
func (s *Space) put(ctx context.Context, wanted *unstructured.Unstructured) error {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(wanted.GroupVersionKind())
	err := s.Publisher.Get(ctx, client.ObjectKeyFromObject(wanted), found)
	if apierrors.IsNotFound(err) {
		return s.Publisher.Create(ctx, wanted)
	}
	switch {
	case err != nil:
		return err
	case !isOurs(found):
		return problemf("the control plane has %s %q, which is not of the host: delete it there, or give it the label %s=true",
			found.GetKind(), found.GetName(), v1alpha1.HostPublishedLabel)
	case isAs(wanted, found):
		return nil
	}
	wanted.SetResourceVersion(found.GetResourceVersion())
	return s.Publisher.Update(ctx, wanted)
}

func isOurs(found metav1.Object) bool {
	return found.GetLabels()[v1alpha1.HostPublishedLabel] == "true"
}

// isAs reports whether a copy is as it was made, but for what the server has added.
func isAs(wanted, found *unstructured.Unstructured) bool {
	for key, value := range wanted.GetAnnotations() {
		if found.GetAnnotations()[key] != value {
			return false
		}
	}
	for field, value := range wanted.Object {
		if field != "metadata" && !contains(found.Object[field], value) {
			return false
		}
	}
	return true
}

// contains reports whether a value has all that is in another one. Lists and maps of strings, such as
// the data of a ConfigMap, must be equal.
func contains(found, wanted any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		f, is := found.(map[string]any)
		if !is || allScalars(w) && len(f) != len(w) {
			return false
		}
		for field, value := range w {
			if !contains(f[field], value) {
				return false
			}
		}
		return true
	case []any:
		f, is := found.([]any)
		return is && slices.EqualFunc(f, w, contains)
	default:
		return found == wanted
	}
}

func allScalars(all map[string]any) bool {
	for _, value := range all {
		switch value.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// prune deletes the copies of a kind that are not kept, wherever they are in the system space.
func (s *Space) prune(ctx context.Context, gvk schema.GroupVersionKind, keep func(namespace, name string) bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := s.Admin.List(ctx, list, client.MatchingLabels{v1alpha1.HostPublishedLabel: "true"}); err != nil {
		return fmt.Errorf("listing the copies of %s: %w", gvk.Kind, err)
	}
	for i := range list.Items {
		item := &list.Items[i]
		if !isOurs(item) || keep(item.Namespace, item.Name) {
			continue
		}
		if err := s.Admin.Delete(ctx, item, client.Preconditions{UID: &item.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting %s %q: %w", gvk.Kind, item.Name, err)
		}
	}
	return nil
}
