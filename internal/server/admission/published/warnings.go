package published

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// warning returns the warning for a user who publishes an object that cannot be
// published, or by an annotation that does not, empty if there is no reason. The manager, which copies objects, may run separately
// with another configuration: its PublishedObject is authoritative.
func (r Rules) warning(resource schema.GroupResource, before, after runtime.Object) string {
	if is, ok := annotation(after, misnamed); ok && !isSame(before, misnamed, is) {
		return fmt.Sprintf("annotation %s means nothing; the one that publishes an object is %s", misnamed, tenant.PublishedAnnotation)
	}
	if !isPublished(after) || isPublished(before) {
		return ""
	}
	if reason := r.unpublishable(resource, after); reason != "" {
		return fmt.Sprintf("annotation %s has no effect here: %s", tenant.PublishedAnnotation, reason)
	}
	return ""
}

func (r Rules) unpublishable(resource schema.GroupResource, obj runtime.Object) string {
	if reason, never := configv1alpha1.NeverPublishable(resource); never {
		return reason
	}
	if secret, ok := obj.(*core.Secret); ok && configv1alpha1.HoldsCredentials(corev1.SecretType(secret.Type)) {
		return "the secret holds credentials of the system space, which are never published; publish a Secret of another type"
	}
	if resource != definitions && !legacyscheme.Scheme.IsGroupRegistered(resource.Group) {
		return "custom resources are not published; publish their definition, and spaces make their own objects of it"
	}
	if resource != namespaces && !slices.Contains(r.Publishable, resource) {
		return fmt.Sprintf("%s is not among the publishable resources; add it to publishable in the manager's configuration, "+
			"and to --publishable-resources of a server beside \"tenantry manager\"", resource)
	}
	return ""
}

// misnamed is how the annotation that publishes would be named if it were below tenantry.io/ as the others are.
const misnamed = "tenantry.io/published"

func annotation(obj runtime.Object, key string) (string, bool) {
	if obj == nil {
		return "", false
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return "", false
	}
	value, ok := accessor.GetAnnotations()[key]
	return value, ok
}

// isSame reports whether an object has an annotation with a value.
func isSame(obj runtime.Object, key, value string) bool {
	was, ok := annotation(obj, key)
	return ok && was == value
}

// isPublished reports whether the annotation of an object publishes it.
func isPublished(obj runtime.Object) bool {
	if obj == nil {
		return false
	}
	accessor, err := meta.Accessor(obj)
	return err == nil && tenant.IsPublished(accessor.GetAnnotations())
}
