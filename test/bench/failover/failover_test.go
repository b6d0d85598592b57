package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tenantry/tenantry/test/harness"
)

func TestMain(m *testing.M) {
	harness.RunIfCalled(memberPart, runMember)
	os.Exit(m.Run())
}

// TestFailover kills a server, a member of etcd and a majority of them: nothing that was acknowledged is
// lost. The rest is "make failover".
func TestFailover(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "tenantry")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/tenantry/tenantry/cmd/tenantry").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := run(t.Context(), t.TempDir(), options{binary: binary, spaces: 2, writers: 1, quick: true}); err != nil {
		t.Fatal(err)
	}
}
