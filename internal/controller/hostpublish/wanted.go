package hostpublish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/tenant"
)

// kind is a resource of the host of which something is published.
type kind struct {
	schema.GroupVersionResource
	object     schema.GroupVersionKind
	namespaced bool
	// all says that all annotated objects in the namespace of the ControlPlane are, and names
	// are those that are beside.
	all   bool
	names []string
}

func (k *kind) String() string { return k.GroupResource().String() }

// byNameAlone are groups of which nothing is published because of its annotation alone.
var byNameAlone = []string{"rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"}

// kinds returns those that a ControlPlane publishes.
func kinds(cp *v1alpha1.ControlPlane, mapper meta.RESTMapper) ([]*kind, error) {
	if cp.Spec.Publish == nil {
		return nil, nil
	}
	found := map[string]*kind{}
	of := func(resource string) (*kind, error) {
		if found[resource] == nil {
			k, err := newKind(resource, mapper)
			if err != nil {
				return nil, err
			}
			found[resource] = k
		}
		return found[resource], nil
	}
	for _, resource := range cp.Spec.Publish.Resources {
		k, err := of(resource)
		switch {
		case err != nil:
			return nil, err
		case k.Resource == "secrets" && k.Group == "" || slices.Contains(byNameAlone, k.Group):
			return nil, problemf("spec.publish.resources: %s are published by name alone: list them in spec.publish.objects", k)
		case !k.namespaced:
			return nil, problemf("spec.publish.resources: %s have no namespace: list them by name in spec.publish.objects", k)
		}
		k.all = true
	}
	for _, object := range cp.Spec.Publish.Objects {
		k, err := of(object.Resource)
		if err != nil {
			return nil, err
		}
		k.names = append(k.names, object.Name)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *kind) int { return strings.Compare(a.String(), b.String()) }), nil
}

func newKind(resource string, mapper meta.RESTMapper) (*kind, error) {
	named := schema.ParseGroupResource(resource)
	if reason, never := configv1alpha1.NeverPublishable(named); never {
		return nil, problemf("spec.publish: %s cannot be published: %s", named, reason)
	}
	gvr, err := mapper.ResourceFor(named.WithVersion(""))
	if meta.IsNoMatchError(err) || err == nil && gvr.GroupResource() != named {
		return nil, problemf("spec.publish: the host has no resource %q", resource)
	} else if err != nil {
		return nil, fmt.Errorf("asking the host for resource %q: %w", resource, err)
	}
	gvk, err := mapper.KindFor(gvr)
	if err != nil {
		return nil, fmt.Errorf("asking the host for the kind of %q: %w", resource, err)
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("asking the host for the scope of %q: %w", resource, err)
	}
	return &kind{GroupVersionResource: gvr, object: gvk, namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

// wanted returns the copies of the objects of a kind that are published, by name, and what is named
// and is not published.
func (r *Reconciler) wanted(ctx context.Context, cp *v1alpha1.ControlPlane, k *kind) (all map[string]*unstructured.Unstructured, missing []error, _ error) {
	names := slices.Clone(k.names)
	if k.all {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(k.object.GroupVersion().WithKind(k.object.Kind + "List"))
		if err := r.Host.List(ctx, list, client.InNamespace(cp.Namespace)); err != nil {
			return nil, nil, k.explain("list", cp, err)
		}
		for i := range list.Items {
			if isPublished(&list.Items[i]) {
				names = append(names, list.Items[i].Name)
			}
		}
	}
	all = map[string]*unstructured.Unstructured{}
	for _, name := range names {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(k.object)
		key := client.ObjectKey{Name: name}
		if k.namespaced {
			key.Namespace = cp.Namespace
		}
		err := r.Host.Get(ctx, key, object)
		if client.IgnoreNotFound(err) != nil {
			return nil, nil, k.explain("get", cp, err)
		}
		if reason := k.unpublished(cp, object, err == nil); reason != "" {
			if slices.Contains(k.names, name) {
				missing = append(missing, problemf("spec.publish.objects: %s %q is not published: %s", k, name, reason))
			}
			continue
		}
		if all[name], err = copyOf(cp, k, object); err != nil {
			return nil, nil, err
		}
	}
	return all, missing, nil
}

// unpublished says why an object of the host is not published, or nothing.
func (k *kind) unpublished(cp *v1alpha1.ControlPlane, object *unstructured.Unstructured, exists bool) string {
	switch {
	case !exists && k.namespaced:
		return fmt.Sprintf("namespace %q has none of this name", cp.Namespace)
	case !exists:
		return "the host has none of this name"
	case !isPublished(object):
		return fmt.Sprintf("it needs the annotation %s=%s", tenant.PublishedAnnotation, tenant.PublishedTrue)
	case k.Resource != "secrets" || k.Group != "":
		return ""
	}
	kindOfSecret, _, _ := unstructured.NestedString(object.Object, "type")
	switch {
	case configv1alpha1.HoldsCredentials(corev1.SecretType(kindOfSecret)):
		return fmt.Sprintf("Secrets of type %q are credentials", kindOfSecret)
	case !controlplane.IsGiven(cp, object):
		// Who may write ControlPlanes, and read what is in them, gets no other Secret by its name.
		return fmt.Sprintf("it needs the label %s=%s, and cannot be one that the operator has made", controlplane.OfLabel, cp.Name)
	}
	return ""
}

// explain says what right the operator lacks.
func (k *kind) explain(verb string, cp *v1alpha1.ControlPlane, err error) error {
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("reading %s of the host: %w", k, err)
	}
	where := "of the whole host"
	if k.namespaced {
		where = fmt.Sprintf("of namespace %q", cp.Namespace)
	}
	return problemf("the operator may not %s %s %s: give its account the verbs get, list and watch", verb, k, where)
}

// isPublished reports whether somebody who may write an object wants it to be published.
func isPublished(object metav1.Object) bool {
	return object.GetAnnotations()[tenant.PublishedAnnotation] == tenant.PublishedTrue
}

// copyOf returns what there is to be in the system space.
func copyOf(cp *v1alpha1.ControlPlane, k *kind, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	for field, value := range object.Object {
		if field != "metadata" && field != "status" {
			wanted.Object[field] = value
		}
	}
	wanted.SetGroupVersionKind(k.object)
	wanted.SetName(object.GetName())
	from := object.GetName()
	if k.namespaced {
		wanted.SetNamespace(cp.Spec.Publish.Namespace)
		from = object.GetNamespace() + "/" + from
	}
	labels := tenant.WithoutOurs(object.GetLabels())
	labels[v1alpha1.HostPublishedLabel] = "true"
	wanted.SetLabels(labels)
	annotations := tenant.WithoutOurs(object.GetAnnotations())
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	annotations[tenant.PublishedAnnotation] = tenant.PublishedTrue
	annotations[v1alpha1.HostObjectAnnotation] = from
	wanted.SetAnnotations(annotations)
	content, err := json.Marshal(wanted.Object) // which sorts the names of fields
	if err != nil {
		return nil, fmt.Errorf("encoding %s %q: %w", k, from, err)
	}
	sum := sha256.Sum256(content)
	annotations[v1alpha1.HostContentAnnotation] = hex.EncodeToString(sum[:16])
	wanted.SetAnnotations(annotations)
	return wanted, nil
}
