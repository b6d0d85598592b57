package admission

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// expressions returns how many expressions the policies and webhooks in the space of n have,
// without those of an object. The last writes may be missing.
func (s *shared) expressions(n tenant.Name, resource schema.GroupResource, name string) (count int) {
	registration := s.views.Of(n).Admissionregistration().V1()
	for of, informer := range map[string]cache.SharedIndexInformer{
		"validatingadmissionpolicies":     registration.ValidatingAdmissionPolicies().Informer(),
		"mutatingadmissionpolicies":       registration.MutatingAdmissionPolicies().Informer(),
		"validatingwebhookconfigurations": registration.ValidatingWebhookConfigurations().Informer(),
		"mutatingwebhookconfigurations":   registration.MutatingWebhookConfigurations().Informer(),
	} {
		for _, obj := range informer.GetIndexer().List() {
			if object, ok := obj.(metav1.Object); ok && (of != resource.Resource || object.GetName() != name) {
				count += spacepolicy.ExpressionsOf(obj.(runtime.Object))
			}
		}
	}
	return count
}

// limitRanges returns the LimitRanges of a namespace in the space of n. The last writes may be
// missing.
func (s *shared) limitRanges(n tenant.Name, namespace string) ([]*corev1.LimitRange, error) {
	return s.flat.Core().V1().LimitRanges().Lister().LimitRanges(tenant.Flatten(n, namespace).String()).List(labels.Everything())
}
