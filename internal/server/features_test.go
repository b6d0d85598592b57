package server

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

func TestFeatures(t *testing.T) {
	if errs := validateFeatures(); len(errs) > 0 {
		t.Errorf("the defaults are refused: %v", errs)
	}
	for _, feature := range []featuregate.Feature{
		features.ConstrainedImpersonation, features.AllowUnsafeMalformedObjectDeletion, features.APIServerWebhookAuthenticationToken,
	} {
		t.Run(string(feature), func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, feature, true)
			if errs := validateFeatures(); len(errs) != 1 {
				t.Errorf("got %v, want that it is refused", errs)
			}
		})
	}
}
