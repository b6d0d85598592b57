package storage

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestLongSelectors checks that lists and watches in a space select by few requirements, of any number of values.
func TestLongSelectors(t *testing.T) {
	configMaps := newBackend(t).configMaps(t, true)
	selecting := func(requirements int) func(*storage.ListOptions) {
		selector := labels.NewSelector()
		for i := range requirements {
			r, err := labels.NewRequirement(fmt.Sprint("l", i), selection.NotIn, []string{"a", "b"})
			if err != nil {
				t.Fatal(err)
			}
			selector = selector.Add(*r)
		}
		return func(o *storage.ListOptions) { o.Predicate.Label = selector }
	}
	for name, tc := range map[string]struct {
		in           tenant.Scope
		requirements int
		refused      bool
	}{
		"most":          {"a", maxRequirements, false},
		"more":          {"a", maxRequirements + 1, true},
		"of the system": {tenant.System.Scope(), maxRequirements + 1, false},
		"of all":        {tenant.All, maxRequirements + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := configMaps.tryList(t, tc.in, "ns", selecting(tc.requirements)); apierrors.IsBadRequest(err) != tc.refused {
				t.Errorf("list: %v", err)
			}
			w, err := configMaps.Watch(configMaps.in(t, tc.in, "ns"), configMaps.prefix+"/ns/", listOptions(selecting(tc.requirements)))
			if apierrors.IsBadRequest(err) != tc.refused {
				t.Errorf("watch: %v", err)
			}
			if err == nil {
				w.Stop()
			}
		})
	}
}
