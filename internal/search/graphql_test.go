package search

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/internal/search/graphql"
)

// TestAllRelatedKinds checks how all kinds are asked for, as by the parameter.
func TestAllRelatedKinds(t *testing.T) {
	for name, tc := range map[string]struct{ kinds, want []string }{
		"none": {nil, nil}, "all": {[]string{"*"}, nil}, "some": {[]string{"Pod", "*"}, []string{"Pod", "*"}},
	} {
		asked, err := (&root{}).questionOf(&graphql.Input{RelatedKinds: tc.kinds})
		if err != nil || !slices.Equal(asked.kinds, tc.want) {
			t.Errorf("%s: got %v, %v", name, asked, err)
		}
	}
}
