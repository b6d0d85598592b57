package published

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// discovered is what discovery answers.
type discovered struct {
	discovery.DiscoveryInterface
	failed []schema.GroupVersion
}

// ServerPreferredNamespacedResources implements discovery.DiscoveryInterface.
func (d discovered) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	lists := []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Verbs: metav1.Verbs{"create", "list"}}}}}
	if len(d.failed) == 0 {
		return lists, nil
	}
	err := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{}}
	for _, version := range d.failed {
		err.Groups[version] = errors.New("unavailable")
	}
	return lists, err
}

// TestContentsWithoutAggregatedServers checks that an aggregated server that does not answer
// stops nothing, while built-in resources have to be known.
func TestContentsWithoutAggregatedServers(t *testing.T) {
	aggregated, builtIn := schema.GroupVersion{Group: "metrics.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	for _, tc := range []struct {
		failed  []schema.GroupVersion
		refused bool
	}{{}, {[]schema.GroupVersion{aggregated}, false}, {[]schema.GroupVersion{builtIn}, true}, {[]schema.GroupVersion{aggregated, builtIn}, true}} {
		contents, err := contentsOf(discovered{failed: tc.failed})
		if (err != nil) != tc.refused || err == nil && len(contents) != 1 {
			t.Errorf("%v fail: %v, %v", tc.failed, contents, err)
		}
	}
}
