package version

import (
	"os"
	"strings"
	"testing"
)

// TestManifestsHaveTheVersion checks that there is one version of the project.
func TestManifestsHaveTheVersion(t *testing.T) {
	for file, lines := range map[string][]string{
		"manifests/tenantry.clusterserviceversion.yaml": {
			"name: tenantry." + Version, "containerImage: ghcr.io/tenantry/tenantry:" + Version, "version: " + strings.TrimPrefix(Version, "v"),
		},
		"operator/kustomization.yaml": {"newTag: " + Version},
	} {
		data, err := os.ReadFile("../../config/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			if !strings.Contains(string(data), line+"\n") {
				t.Errorf("%s: there is no %q", file, line)
			}
		}
	}
}
