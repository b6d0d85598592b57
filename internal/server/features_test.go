package server

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

func TestFeatures(t *testing.T) {
	if errs := validateFeatures(); len(errs) > 0 {
		t.Errorf("the defaults are refused: %v", errs)
	}
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ConstrainedImpersonation, true)
	if errs := validateFeatures(); len(errs) == 0 {
		t.Error("constrained impersonation is accepted")
	}
}
