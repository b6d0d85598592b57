package published

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// warning returns the warning for a user who publishes an object that cannot be published, or by an annotation that
// does not, or a policy that tenants can evade, empty if there is no reason. The manager, which copies objects, may run
// separately with another configuration: its PublishedObject is authoritative.
func (r Rules) warning(resource schema.GroupResource, before, after runtime.Object) string {
	is, ok := annotationsOf(after)[misnamed]
	if was, had := annotationsOf(before)[misnamed]; ok && !(had && was == is) {
		return fmt.Sprintf("annotation %s means nothing; the one that publishes an object is %s", misnamed, tenant.PublishedAnnotation)
	}
	if !tenant.IsPublished(annotationsOf(after)) {
		return ""
	}
	was := tenant.IsPublished(annotationsOf(before))
	if reason := r.unpublishable(resource, after); reason != "" && !was {
		return fmt.Sprintf("annotation %s has no effect here: %s", tenant.PublishedAnnotation, reason)
	}
	evaded := r.evaded(after)
	if was && evaded == r.evaded(before) {
		return ""
	}
	return evaded
}

// evaded returns how tenants can evade a published policy or binding by its parameters, empty if they cannot.
func (r Rules) evaded(obj runtime.Object) string {
	var kind *admissionregistration.ParamKind
	var fails *admissionregistration.FailurePolicyType
	switch policy := obj.(type) {
	case *admissionregistration.ValidatingAdmissionPolicy:
		kind, fails = policy.Spec.ParamKind, policy.Spec.FailurePolicy
	case *admissionregistration.MutatingAdmissionPolicy:
		kind, fails = policy.Spec.ParamKind, policy.Spec.FailurePolicy
	case *admissionregistration.ValidatingAdmissionPolicyBinding:
		return evadedBinding(policy.Spec.ParamRef)
	case *admissionregistration.MutatingAdmissionPolicyBinding:
		return evadedBinding(policy.Spec.ParamRef)
	}
	if kind == nil {
		return ""
	}
	resource, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind))
	switch {
	case resource.GroupResource() != namespaces && !slices.Contains(r.Publishable, resource.GroupResource()):
		return fmt.Sprintf("%s are not published, so the parameters are those that each tenant writes; take a kind that is published, such as ConfigMaps, and annotate the parameters with force", resource.GroupResource())
	case ptr.Deref(fails, "") == admissionregistration.Ignore:
		return "with failurePolicy: Ignore it is not evaluated in spaces that have no room for its parameters, and tenants can use up theirs; a policy that must hold has failurePolicy: Fail"
	}
	return ""
}

// evadedBinding returns how tenants can evade a published binding by the parameters that it names. It does not know
// their kind, which its policy has.
func evadedBinding(ref *admissionregistration.ParamRef) string {
	if ref == nil || ref.Namespace != "" {
		return ""
	}
	return "paramRef names no namespace: parameters of a kind with namespaces are those that each tenant writes in the namespace of what is changed; name the published namespace that has them"
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

// annotationsOf returns the annotations of an object, none of nothing.
func annotationsOf(obj runtime.Object) map[string]string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return accessor.GetAnnotations()
}
