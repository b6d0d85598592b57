package main

import (
	"io"
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
	got, err := readReport(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report{"[sig] Watchers see": "passed", "[sig] quota": "failed"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestCompare(t *testing.T) {
	for name, tc := range map[string]struct {
		stock, space report
		want         string
	}{
		"equal":           {report{"a": "passed", "b": "failed"}, report{"a": "passed", "b": "failed"}, ""},
		"better":          {report{"a": "passed", "b": "failed"}, report{"a": "passed", "b": "passed"}, ""},
		"worse":           {report{"a": "passed", "b": "passed"}, report{"a": "failed", "b": "passed"}, "passed on the stock server only:\n  a"},
		"missing":         {report{"a": "passed"}, report{}, "passed on the stock server only:\n  a"},
		"explained":       {report{"a, on purpose": "passed"}, report{"a, on purpose": "failed"}, ""},
		"nothing to show": {report{}, report{"a": "passed"}, "no test passed on the stock server, so there is nothing to compare with"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := compare(io.Discard, []string{"stock", "space"}, []report{tc.stock, tc.space}, map[string]string{"on purpose": "so it is"}); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
