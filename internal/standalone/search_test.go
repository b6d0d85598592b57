package standalone

import (
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/internal/server"
)

// TestNewSearch checks that a server of searches writes its key nowhere: it would be watched, and left there.
func TestNewSearch(t *testing.T) {
	o := server.NewOptions()
	o.SearchOnly, o.Kube.SecureServing.ServerCert.CertDirectory = true, t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	_, err := NewSearch(t.Context(), o)
	expectError(t, err, "--etcd-servers must be specified")
}
