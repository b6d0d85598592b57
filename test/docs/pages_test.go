package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// TestLinks checks that what pages link to is there, anchors included.
func TestLinks(t *testing.T) {
	pages := read(t)
	anchors := map[string]map[string]bool{}
	for _, page := range pages {
		anchors[page.Path] = page.Anchors()
	}
	checked := 0
	for _, page := range pages {
		for _, link := range page.Links() {
			if strings.Contains(link, "://") {
				continue
			}
			checked++
			target, anchor, _ := strings.Cut(link, "#")
			to := path.Join(path.Dir(page.Path), target)
			if target == "" {
				to = page.Path
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which is not there", page.Path, link)
			} else if anchor != "" && !anchors[to][anchor] {
				t.Errorf("%s links to %s, where there is no such heading", page.Path, link)
			}
		}
	}
	if checked == 0 {
		t.Error("no link was checked")
	}
}

// TestPathsAreThere checks paths of the repository that pages name.
func TestPathsAreThere(t *testing.T) {
	named := regexp.MustCompile(`^(api|bundle|cmd|config|docs|internal|test|tools)/[\w./{},-]+$`)
	checked := 0
	for _, page := range read(t) {
		for _, code := range page.Code() {
			if !named.MatchString(code) {
				continue
			}
			for _, file := range Expand(code) {
				checked++
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s names %s, which is not there", page.Path, file)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no path was checked")
	}
}

// TestMakeTargets checks that every target that a page names is in the Makefile.
func TestMakeTargets(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(makefile, -1) {
		targets[string(match[1])] = true
	}
	call := regexp.MustCompile(`^make((?: [a-z][a-z0-9-]*)+)`)
	checked := 0
	for _, page := range read(t) {
		calls := page.Code()
		for _, block := range page.Blocks {
			for _, command := range block.Commands() {
				calls = append(calls, command.Text)
			}
		}
		for _, text := range calls {
			match := call.FindStringSubmatch(text)
			if match == nil {
				continue
			}
			for target := range strings.FieldsSeq(match[1]) {
				checked++
				if !targets[target] {
					t.Errorf("%s says make %s, which the Makefile has not", page.Path, target)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no target was checked")
	}
}

// TestFiltersAreInOrder checks that the page on filters has those of the server, in the order of the list above the
// function that puts them together.
func TestFiltersAreInOrder(t *testing.T) {
	chain, err := os.ReadFile(filepath.Join(root, "internal/server/chain.go"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/concepts/filters.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := firsts(regexp.MustCompile(`(?m)^//\t(With\w+) `), string(chain))
	if diff := cmp.Diff(want, firsts(regexp.MustCompile(`\*\*(With\w+)\*\*`), string(page))); diff != "" {
		t.Errorf("docs/concepts/filters.md (-want +got):\n%s", diff)
	}
	for _, name := range want {
		if !strings.Contains(string(chain), "."+name+"(") {
			t.Errorf("internal/server/chain.go lists %s, and does not call it", name)
		}
	}
}

// upstream are parts of messages that are Kubernetes' own.
var upstream = []string{"Unauthorized", "failed quota:", "exceeded quota:"}

// TestMessagesAreReal checks that what the page on troubleshooting explains is what the
// code says: each part of a message between "..." is in it.
func TestMessagesAreReal(t *testing.T) {
	said := strings.Join(upstream, "\n") + sources(t)
	checked := 0
	for _, page := range read(t) {
		if page.Path != "docs/guides/troubleshooting.md" {
			continue
		}
		for _, match := range regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatch(page.Prose, -1) {
			for part := range strings.SplitSeq(match[1], "...") {
				checked++
				if part = strings.Trim(part, ` "`); !strings.Contains(said, part) {
					t.Errorf("%s explains %q, which no message has", page.Path, part)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no message was checked")
	}
}

// sources returns the Go files of the product. Strings that are put together of several
// lines are one, and what is filled in is left out.
func sources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"api", "cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			all.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(strings.ReplaceAll(all.String(), "\\n", "\n"), "")
}

// TestReadmeFitsOnAFewScreens keeps details in the guides.
func TestReadmeFitsOnAFewScreens(t *testing.T) {
	for _, page := range read(t) {
		if page.Path == "README.md" && (page.Lines < 120 || page.Lines > 150) {
			t.Errorf("README.md has %d lines, not 120 to 150: details go to docs/guides", page.Lines)
		}
	}
}

// TestArchitectureIsNarrow keeps its paragraphs at 90 columns, so that differences of them can be read. What has no
// space, as a link, may be longer.
func TestArchitectureIsNarrow(t *testing.T) {
	for _, page := range read(t) {
		if page.Path != "ARCHITECTURE.md" {
			continue
		}
		for i, line := range strings.Split(page.Prose, "\n") {
			if len(line) > 90 && !strings.HasPrefix(line, "|") && len(strings.Fields(line)) > 1 {
				t.Errorf("%s:%d has %d columns", page.Path, i+1, len(line))
			}
		}
	}
}

// TestBlocks checks that whatever is shown says what it is, so that no command escapes
// those who run them.
func TestBlocks(t *testing.T) {
	languages := map[string]bool{Console: true, "yaml": true, "json": true, "text": true, "imports": true} // those that test/imports enforces
	indented := regexp.MustCompile(`(?m)^$\n    +(\S.*)`)
	for _, page := range read(t) {
		if strings.HasPrefix(page.Path, "docs/reference/") {
			continue // generated
		}
		for _, block := range page.Blocks {
			if !languages[block.Language] {
				t.Errorf("%s:%d: a block of language %q; use %s, yaml, json or text", page.Path, block.Line, block.Language, Console)
			}
			if commands := block.Commands(); (block.Language == Console) != (len(commands) > 0) {
				t.Errorf("%s:%d: a block of language %q has %d commands", page.Path, block.Line, block.Language, len(commands))
			}
		}
		for _, match := range indented.FindAllStringSubmatch(page.Prose, -1) {
			t.Errorf("%s: %q is an indented block; use fences", page.Path, match[1])
		}
	}
}

// TestPartsArePatches checks that no page has a manifest of what its reader has already: kubectl apply takes away what
// another page has applied, and the manifest lacks. A part of a spec is for kubectl patch.
func TestPartsArePatches(t *testing.T) {
	there := map[string]string{"ControlPlane": "sample", "Tenant": "(acme|globex)", "KeystoneSync": "sample"}
	parts := 0
	for _, page := range read(t) {
		for _, block := range page.Blocks {
			if block.Language != "yaml" {
				continue
			}
			for kind, name := range there {
				if regexp.MustCompile(`(?m)^kind: `+kind+`$`).MatchString(block.Text) && regexp.MustCompile(`(?m)^(metadata:.*|  )\bname: `+name+`\b`).MatchString(block.Text) {
					t.Errorf("%s:%d: this %s is there: show the part of its spec, with kubectl patch --type merge --patch-file", page.Path, block.Line, kind)
				}
			}
			file := block.File()
			if file == "" || !regexp.MustCompile(`(?m)\A# .*\nspec:$`).MatchString(block.Text) {
				continue
			}
			parts++
			if !slices.ContainsFunc(page.Blocks, func(b Block) bool { return b.Language == Console && strings.Contains(b.Text, "--patch-file "+file) }) {
				t.Errorf("%s:%d: no command patches by %s", page.Path, block.Line, file)
			}
		}
	}
	if parts == 0 {
		t.Error("no part was checked")
	}
}

// TestEveryPageIsListed checks that a reader who begins at docs/README.md finds every page
// below docs, by a link to it or to the README.md of its directory.
func TestEveryPageIsListed(t *testing.T) {
	pages := read(t)
	listed := map[string]bool{}
	for _, page := range pages {
		if page.Path == "docs/README.md" {
			for _, link := range page.Links() {
				target, _, _ := strings.Cut(link, "#")
				listed[path.Join("docs", target)] = true
			}
		}
	}
	for _, page := range pages {
		if strings.HasPrefix(page.Path, "docs/") && page.Path != "docs/README.md" && !listed[page.Path] && !listed[path.Dir(page.Path)+"/README.md"] {
			t.Errorf("docs/README.md does not list %s", page.Path)
		}
	}
}

func TestCommands(t *testing.T) {
	block := Block{Line: 7, Language: Console, Text: `$ one
out
$ two \
  --flag
$ three '{"a":
    "b"}'
done
$ four <<EOT
a: 1
EOT
$ five <<< "x"`}
	want := []Command{
		{Line: 8, Text: "one", Output: []string{"out"}},
		{Line: 10, Text: "two \\\n  --flag"},
		{Line: 12, Text: "three '{\"a\":\n    \"b\"}'", Output: []string{"done"}},
		{Line: 15, Text: "four <<EOT\na: 1\nEOT"},
		{Line: 18, Text: `five <<< "x"`},
	}
	if diff := cmp.Diff(want, block.Commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	page, err := parse("a.md", "# A `b`: c\n\n[x\ny](z.md#q) `[n](o)`\n\n```console\n$ ls\n[no](no)\n```\n# A b c\n# a b c\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"a-b-c": true, "a-b-c-1": true, "a-b-c-2": true}, page.Anchors()); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"z.md#q"}, page.Links()); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Block{{Line: 6, Language: Console, Text: "$ ls\n[no](no)"}}, page.Blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	if _, err := parse("a.md", "```text\nx\n"); err == nil {
		t.Error("a block without an end is taken")
	}
}

func read(t *testing.T) []Page {
	t.Helper()
	pages, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
