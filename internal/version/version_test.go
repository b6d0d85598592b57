package version

import (
	"os"
	"strings"
	"testing"
)

// TestManifestsHaveTheVersion checks that there is one version of the project.
func TestManifestsHaveTheVersion(t *testing.T) {
	data, err := os.ReadFile("../../config/manifests/tenantry.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"name: tenantry." + Version, "containerImage: ghcr.io/tenantry/tenantry:" + Version, "version: " + strings.TrimPrefix(Version, "v")} {
		if !strings.Contains(string(data), line+"\n") {
			t.Errorf("there is no %q", line)
		}
	}
}
