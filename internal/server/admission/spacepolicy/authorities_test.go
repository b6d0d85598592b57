package spacepolicy

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestCheckAuthorities(t *testing.T) {
	// What is too much of a bundle is for the tests of package bounds.
	usual, large, larger := []byte("x"), make([]byte, bounds.MaxAuthorityBytes+1), make([]byte, bounds.MaxAuthorityBytes+2)
	config := func(bundle []byte) admissionregistration.WebhookClientConfig {
		return admissionregistration.WebhookClientConfig{CABundle: bundle}
	}
	validating := func(bundle []byte) runtime.Object {
		return &admissionregistration.ValidatingWebhookConfiguration{Webhooks: []admissionregistration.ValidatingWebhook{
			{ClientConfig: config(usual)}, {ClientConfig: config(bundle)}}}
	}
	mutating := func(bundle []byte) runtime.Object {
		return &admissionregistration.MutatingWebhookConfiguration{Webhooks: []admissionregistration.MutatingWebhook{
			{ClientConfig: config(usual)}, {ClientConfig: config(bundle)}}}
	}
	definition := func(bundle []byte) runtime.Object {
		return &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{Conversion: &apiextensions.CustomResourceConversion{
			WebhookClientConfig: &apiextensions.WebhookClientConfig{CABundle: bundle}}}}
	}
	for kind, of := range map[string]struct {
		kind     schema.GroupVersionKind
		resource string
		with     func(bundle []byte) runtime.Object
		field    string
	}{
		"validating": {admissionregistration.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), "validatingwebhookconfigurations", validating,
			"webhooks[1].clientConfig.caBundle"},
		"mutating": {admissionregistration.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), "mutatingwebhookconfigurations", mutating,
			"webhooks[1].clientConfig.caBundle"},
		"definition": {apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "customresourcedefinitions", definition,
			"spec.conversion.webhook.clientConfig.caBundle"},
	} {
		for name, tc := range map[string]struct {
			object, old runtime.Object
			space       tenant.Name
			refused     bool
		}{
			"usual":            {object: of.with(usual), space: "a"},
			"none":             {object: of.with(nil), space: "a"},
			"large":            {object: of.with(large), space: "a", refused: true},
			"large before":     {object: of.with(large), old: of.with(large), space: "a"},
			"larger":           {object: of.with(larger), old: of.with(large), space: "a", refused: true},
			"the system space": {object: of.with(large), space: tenant.System},
		} {
			t.Run(kind+", "+name, func(t *testing.T) {
				err := validated(t, tc.space, of.kind, of.resource, tc.object, tc.old)
				if refused := err != nil && strings.Contains(err.Error(), of.field+": it has"); refused != tc.refused || err != nil && !refused {
					t.Errorf("%v, want refused: %v", err, tc.refused)
				}
			})
		}
	}
}
