package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackagesAreDescribed checks that a package of more than one file says in its doc.go what it is, and a program
// there or in its main.go.
func TestPackagesAreDescribed(t *testing.T) {
	described := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		code := 0
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				code++
			}
		}
		if code < 2 {
			return nil
		}
		of := filepath.Join(path, "doc.go")
		if _, err := os.Stat(of); err != nil {
			of = filepath.Join(path, "main.go")
		}
		if parsed, err := parser.ParseFile(token.NewFileSet(), of, nil, parser.PackageClauseOnly|parser.ParseComments); err != nil || parsed.Doc.Text() == "" {
			t.Errorf("%s says nothing of its package: %v", of, err)
		}
		described++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if described == 0 {
		t.Error("no package was found")
	}
}
