package server

import (
	"testing"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
)

type told struct {
	basecompatibility.EffectiveVersion
	version string
}

func (t told) Info() *apimachineryversion.Info {
	return &apimachineryversion.Info{Major: "1", Minor: "2", GitVersion: t.version}
}

func TestEffectiveVersion(t *testing.T) {
	for _, tc := range []struct{ built, linked, want string }{
		{"v0.0.0-master+$Format:%H$", "v1.2.3", "v1.2.3+tenantry"},
		{"v0.0.0-master+$Format:%H$", "", "v0.0.0-master+$Format:%H$"},
		{"v1.2.3+tenantry", "v1.2.3", "v1.2.3+tenantry"},
	} {
		if got := (effectiveVersion{told{version: tc.built}, tc.linked}).Info(); got.GitVersion != tc.want || got.Minor != "2" {
			t.Errorf("built as %q with %q: %+v, want %q", tc.built, tc.linked, got, tc.want)
		}
	}
}
