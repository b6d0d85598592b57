package server

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// Defaults that differ from upstream's; --feature-gates has the last word.
func init() {
	// A snapshot of the watch cache per event is a third of the memory of tenants
	// that were just created, until other events take its place. What it serves,
	// the later pages of lists and lists at an older version, etcd serves too.
	runtime.Must(utilfeature.DefaultMutableFeatureGate.OverrideDefault(features.ListFromCacheSnapshot, false))
	for feature := range refused {
		runtime.Must(utilfeature.DefaultMutableFeatureGate.OverrideDefault(feature, false))
	}
}

// refused are the features that do not go with spaces, and why.
var refused = map[featuregate.Feature]string{
	// It remembers for ten seconds who may impersonate whom.
	features.ConstrainedImpersonation: "what it remembers of a space would hold in others",
	// Only its annotation says which space an object is of, who published it and what of a
	// quota it takes.
	features.AllowUnsafeMalformedObjectDeletion: "whose an object is that cannot be read is not known; " +
		"delete its key in etcd",
	// Bodies are looked at before they are decoded.
	features.CBORServingAndStorage: "metadata.tenant, and what takes long to decode, is not looked for in CBOR",
	// Webhooks are looked up when a token is made and when it is verified.
	features.APIServerWebhookAuthenticationToken: "tokens do not tell the webhooks of a space from those of others",
}

// validateFeatures refuses what does not go with spaces.
func validateFeatures() []error {
	var errs []error
	for _, feature := range slices.Sorted(maps.Keys(refused)) {
		if utilfeature.DefaultFeatureGate.Enabled(feature) {
			errs = append(errs, fmt.Errorf("--feature-gates=%s=true: %s; leave it off", feature, refused[feature]))
		}
	}
	return errs
}
