package server

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// Defaults that differ from upstream's; --feature-gates has the last word.
func init() {
	// A snapshot of the watch cache per event is a third of the memory of tenants
	// that were just created, until other events take its place. What it serves,
	// the later pages of lists and lists at an older version, etcd serves too.
	runtime.Must(utilfeature.DefaultMutableFeatureGate.OverrideDefault(features.ListFromCacheSnapshot, false))
	runtime.Must(utilfeature.DefaultMutableFeatureGate.OverrideDefault(features.ConstrainedImpersonation, false))
}

// validateFeatures refuses what does not go with spaces. Constrained impersonation
// remembers for ten seconds who may impersonate whom, but not in which space.
func validateFeatures() []error {
	if utilfeature.DefaultFeatureGate.Enabled(features.ConstrainedImpersonation) {
		return []error{fmt.Errorf("--feature-gates=%s=true: what it remembers of a space would hold in others; leave it off",
			features.ConstrainedImpersonation)}
	}
	return nil
}
