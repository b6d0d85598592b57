package published

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestMisnamed checks that who publishes by the prefix of all other annotations learns that nothing comes of it.
func TestMisnamed(t *testing.T) {
	of := func(key, value string) *core.ConfigMap {
		return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{key: value}}}
	}
	resource := schema.GroupResource{Resource: "configmaps"}
	rules := Rules{Publishable: []schema.GroupResource{resource}}
	const want = "annotation tenantry.io/published means nothing; the one that publishes an object is multi-tenancy.k8s.io/published"
	for name, tc := range map[string]struct {
		before, after *core.ConfigMap
		want          bool
	}{
		"new":       {after: of("tenantry.io/published", "true"), want: true},
		"added":     {before: of("a", "b"), after: of("tenantry.io/published", "true"), want: true},
		"changed":   {before: of("tenantry.io/published", "true"), after: of("tenantry.io/published", "force"), want: true},
		"unchanged": {before: of("tenantry.io/published", "true"), after: of("tenantry.io/published", "true")},
		"right":     {after: of("multi-tenancy.k8s.io/published", "true")},
		"removed":   {before: of("tenantry.io/published", "true"), after: of("a", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if tc.before == nil {
				got = rules.warning(resource, nil, tc.after)
			} else {
				got = rules.warning(resource, tc.before, tc.after)
			}
			if strings.Contains(got, want) != tc.want || !tc.want && got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}
