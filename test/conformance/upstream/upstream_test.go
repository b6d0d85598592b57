package upstream

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, []byte(`[{"SpecReports": [
		{"ContainerHierarchyTexts": ["[sig]", "Watchers"], "LeafNodeText": "see", "State": "passed"},
		{"ContainerHierarchyTexts": ["[sig]"], "LeafNodeText": "quota", "State": "failed"},
		{"ContainerHierarchyTexts": ["[sig]"], "LeafNodeText": "pods", "State": "skipped"},
		{"LeafNodeType": "BeforeSuite", "State": "passed"}]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Report{"[sig] Watchers see": "passed", "[sig] quota": "failed"}, got); diff != "" {
		t.Error(diff)
	}
}
