package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestOneAlias checks that a package is renamed in the same way wherever it is.
func TestOneAlias(t *testing.T) {
	type use struct{ alias, file string }
	first := map[string]use{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if spec.Name == nil || spec.Name.Name == "_" || spec.Name.Name == "." {
				continue
			}
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			alias := spec.Name.Name
			if f, ok := first[imported]; !ok {
				first[imported] = use{alias, path}
			} else if f.alias != alias {
				t.Errorf("%s calls %s %s, %s calls it %s", path, imported, alias, f.file, f.alias)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(first) == 0 {
		t.Error("no import with another name was found")
	}
}
