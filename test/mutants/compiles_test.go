package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTableCompiles checks that the mutants of the table compile, as far as their own packages say: another package may
// need what one takes away. It builds nothing but what all tests need.
func TestTableCompiles(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found, err := newChecker(t, root)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, m := range table {
		path, content, err := m.mutated(root)
		if err != nil || filepath.Ext(path) != ".go" {
			continue // as TestTable says, or what no compiler reads
		}
		if err := found.check(path, content); err != nil {
			t.Errorf("%s does not compile: %v", m.name, err)
		}
		checked++
	}
	if checked == 0 {
		t.Error("no mutant was checked")
	}
	if found.check(filepath.Join(root, "internal/tenant/name.go"), []byte("package tenant\n")) == nil {
		t.Error("a package compiles without what it uses")
	}
}

// checker type-checks packages with another file, by what the compiler has written about those that they import.
type checker struct {
	files    *token.FileSet
	importer types.Importer
	packages map[string]*checkedPackage // by directory
}

// checkedPackage is what go list says of a package.
type checkedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	parsed                  map[string]*ast.File // by path
}

func newChecker(t *testing.T, root string) (*checker, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, m := range table {
		if filepath.Ext(m.file) == ".go" {
			args = append(args, "./"+filepath.Dir(m.file))
		}
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir, list.Stderr = root, os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	exports := map[string]string{}
	c := &checker{files: token.NewFileSet(), packages: map[string]*checkedPackage{}}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &checkedPackage{parsed: map[string]*ast.File{}}
		if err := decoder.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath], c.packages[p.Dir] = p.Export, p
	}
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c, nil
}

// check returns the first error of a package in which a file is another one.
func (c *checker) check(path string, content []byte) error {
	p := c.packages[filepath.Dir(path)]
	if p == nil {
		return fmt.Errorf("there is no package of %s", path)
	}
	changed, err := parser.ParseFile(c.files, path, content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	files := []*ast.File{changed}
	for _, name := range p.GoFiles {
		other := filepath.Join(p.Dir, name)
		if other == path {
			continue
		}
		if p.parsed[other] == nil {
			if p.parsed[other], err = parser.ParseFile(c.files, other, nil, parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, p.parsed[other])
	}
	var first error
	config := types.Config{Importer: c.importer, Error: func(err error) { first = cmp.Or(first, err) }}
	_, err = config.Check(p.ImportPath, c.files, files, nil)
	return cmp.Or(first, err)
}
