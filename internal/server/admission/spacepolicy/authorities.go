package spacepolicy

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/tenantry/tenantry/internal/bounds"
)

// checkAuthorities refuses webhooks whose certificates take long to verify. Those of before can be kept,
// and are not connected to (package egress).
func checkAuthorities(a admission.Attributes) error {
	before := authoritiesOf(a.GetOldObject())
	after := authoritiesOf(a.GetObject())
	for _, field := range slices.Sorted(maps.Keys(after)) {
		if string(before[field]) == string(after[field]) {
			continue
		}
		if err := bounds.Authorities(after[field]); err != nil {
			return forbidden(a, fmt.Sprintf("%s: %v", field, err))
		}
	}
	return nil
}

// authoritiesOf returns the authorities by which certificates of webhooks are verified, by their fields.
func authoritiesOf(obj runtime.Object) map[string][]byte {
	bundles := map[string][]byte{}
	switch o := obj.(type) {
	case *admissionregistration.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			bundles[fmt.Sprintf("webhooks[%d].clientConfig.caBundle", i)] = o.Webhooks[i].ClientConfig.CABundle
		}
	case *admissionregistration.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			bundles[fmt.Sprintf("webhooks[%d].clientConfig.caBundle", i)] = o.Webhooks[i].ClientConfig.CABundle
		}
	case *apiextensions.CustomResourceDefinition:
		if o.Spec.Conversion != nil && o.Spec.Conversion.WebhookClientConfig != nil {
			bundles["spec.conversion.webhook.clientConfig.caBundle"] = o.Spec.Conversion.WebhookClientConfig.CABundle
		}
	}
	return bundles
}
