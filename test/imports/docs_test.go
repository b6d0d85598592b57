package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
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

// TestCommentsAreNarrow keeps comments at 120 columns, but for those of the API, whose lines are descriptions of
// fields.
func TestCommentsAreNarrow(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasPrefix(path, "../../api/") {
			return err
		}
		data, err := os.ReadFile(path)
		for i, line := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "// ") && utf8.RuneCountInString(line) > 120 && len(strings.Fields(line)) > 2 {
				t.Errorf("%s:%d is a comment of more than 120 columns", path, i+1)
			}
		}
		looked++
		return err
	})
	if err != nil || looked == 0 {
		t.Fatalf("%d files were looked at: %v", looked, err)
	}
}
