package admission

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// policyCosts returns what the policies, their bindings and the webhooks in the space of n cost. The last writes may be
// missing.
func (s *shared) policyCosts(n tenant.Name) map[string]spacepolicy.PolicyCosts {
	registration := s.views.Of(n).Admissionregistration().V1()
	all := map[string]spacepolicy.PolicyCosts{}
	for resource, informer := range map[string]cache.SharedIndexInformer{
		"validatingadmissionpolicies":       registration.ValidatingAdmissionPolicies().Informer(),
		"validatingadmissionpolicybindings": registration.ValidatingAdmissionPolicyBindings().Informer(),
		"mutatingadmissionpolicies":         registration.MutatingAdmissionPolicies().Informer(),
		"mutatingadmissionpolicybindings":   registration.MutatingAdmissionPolicyBindings().Informer(),
		"validatingwebhookconfigurations":   registration.ValidatingWebhookConfigurations().Informer(),
		"mutatingwebhookconfigurations":     registration.MutatingWebhookConfigurations().Informer(),
	} {
		for _, obj := range informer.GetIndexer().List() {
			if object, ok := obj.(metav1.Object); ok {
				all[spacepolicy.PolicyKey(resource, object.GetName())] = spacepolicy.PolicyCostsOf(obj.(runtime.Object))
			}
		}
	}
	return all
}

// limitRanges returns the LimitRanges of a namespace in the space of n. The last writes may be
// missing.
func (s *shared) limitRanges(n tenant.Name, namespace string) ([]*corev1.LimitRange, error) {
	return s.flat.Core().V1().LimitRanges().Lister().LimitRanges(tenant.Flatten(n, namespace).String()).List(labels.Everything())
}
