package server

import (
	"strings"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
)

// effectiveVersion tells clients the version of the Kubernetes libraries. Without
// it, a binary that was built without the Makefile's flags would say v0.0.0, which
// Helm charts refuse.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
	linked string
}

// Info implements basecompatibility.EffectiveVersion.
func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := *v.EffectiveVersion.Info()
	if v.linked != "" && strings.HasPrefix(info.GitVersion, "v0.0.0") {
		info.GitVersion = v.linked + "+tenantry"
	}
	return &info
}
