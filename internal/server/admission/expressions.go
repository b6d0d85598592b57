package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/tenant"
)

// expressions returns how many expressions the policies and webhooks in the space of n have,
// without those of an object of a name. The last writes may be missing.
func (s *shared) expressions(n tenant.Name, except string) (count int) {
	registration := s.views.Of(n).Admissionregistration().V1()
	for _, informer := range []cache.SharedIndexInformer{
		registration.ValidatingAdmissionPolicies().Informer(), registration.MutatingAdmissionPolicies().Informer(),
		registration.ValidatingWebhookConfigurations().Informer(), registration.MutatingWebhookConfigurations().Informer(),
	} {
		for _, obj := range informer.GetIndexer().List() {
			if object, ok := obj.(metav1.Object); ok && object.GetName() != except {
				count += spacepolicy.ExpressionsOf(obj.(runtime.Object))
			}
		}
	}
	return count
}
