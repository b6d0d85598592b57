// Package imports holds the import rules of ARCHITECTURE.md as a test.
package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/test/docs"
)

const module = "github.com/tenantry/tenantry/"

func TestImportsPointDown(t *testing.T) {
	r := readRules(t, "../../ARCHITECTURE.md")
	checked := 0
	for _, p := range list(t) {
		if strings.HasPrefix(p.ImportPath, module+"test/") {
			continue
		}
		from := r.room(p.ImportPath)
		if from == "" {
			t.Errorf("%s has no place in the layers of ARCHITECTURE.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			checked++
			if to, ok := r.allowed(from, imported); !ok {
				t.Errorf("%s imports %s, but %s is in no layer below %s", p.ImportPath, imported, to, from)
			}
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if r.banned(p.ImportPath, imported) {
				t.Errorf("%s imports %s, which it never must", p.ImportPath, imported)
			}
		}
	}
	if checked == 0 {
		t.Error("no import was checked")
	}
}

// TestThePackagesAreInOrder checks the table of packages: each has a row, and the rows are in the
// order of the layers.
func TestThePackagesAreInOrder(t *testing.T) {
	const file = "../../ARCHITECTURE.md"
	r := readRules(t, file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, depth := map[string]bool{}, 0
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:api|cmd|internal)/[^`]+)` \\|").FindAllStringSubmatch(string(content), -1) {
		for _, path := range docs.Expand(row[1]) {
			rows[module+path] = true
			if layer := r.layer[r.room(module+path)]; layer < depth {
				t.Errorf("%s: the row of %s is below those of lower layers", file, path)
			} else {
				depth = layer
			}
		}
	}
	for _, p := range list(t) {
		if owner := strings.TrimPrefix(p.ImportPath, module); !rows[p.ImportPath] && !strings.HasPrefix(owner, "test/") && !strings.HasPrefix(owner, "config/") {
			t.Errorf("%s: %s has no row in the table of packages", file, p.ImportPath)
		}
	}
}

// rules are the table of layers and the table of what is never imported. Rooms and
// packages are patterns as Go has them, without "internal/".
type rules struct {
	// layer says how far down a room is.
	layer map[string]int
	never map[string][]string
}

// room returns the room of a package, "" if it has none.
func (r rules) room(path string) string {
	best := ""
	for room := range r.layer {
		if matches(room, path) && len(room) > len(best) {
			best = room
		}
	}
	return best
}

// allowed reports whether a room may import a package as far as layers go, and
// which room that is in.
func (r rules) allowed(from, imported string) (string, bool) {
	if !strings.HasPrefix(imported, module) {
		return "", true
	}
	to := r.room(imported)
	return to, to == from || to != "" && r.layer[to] > r.layer[from]
}

func (r rules) banned(path, imported string) bool {
	for room, banned := range r.never {
		if matches(room, path) && slices.ContainsFunc(banned, func(pattern string) bool { return matches(pattern, imported) }) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern covers a package.
func matches(pattern, path string) bool {
	path = strings.TrimPrefix(strings.TrimPrefix(path, module), "internal/")
	tree, ok := strings.CutSuffix(pattern, "/...")
	return path == tree || ok && strings.HasPrefix(path, tree+"/")
}

// readRules reads the fenced blocks "imports" of a file: a line for each layer, from
// top to bottom, and lines with "never" between rooms and what they must not import.
func readRules(t *testing.T, file string) rules {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), "\n```imports\n")
	block, _, ok := strings.Cut(rest, "\n```\n")
	if !ok {
		t.Fatalf("%s has no block of imports", file)
	}
	r := rules{layer: map[string]int{}, never: map[string][]string{}}
	depth := 0
	for line := range strings.Lines(block) {
		rooms, banned, isBan := strings.Cut(line, " never ")
		depth++
		for _, room := range strings.Fields(rooms) {
			if isBan {
				r.never[room] = strings.Fields(banned)
			} else if _, twice := r.layer[room]; twice {
				t.Fatalf("%s: %s stands in two layers", file, room)
			} else {
				r.layer[room] = depth
			}
		}
	}
	return r
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list returns all packages of the module.
func list(t *testing.T) []goPackage {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		t.Fatal(fmt.Errorf("listing packages: %w", err))
	}
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		switch err := decoder.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
