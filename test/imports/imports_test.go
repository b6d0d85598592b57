// Package imports holds the import rule of ARCHITECTURE.md as a test.
package imports

import (
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/tenantry/tenantry/"

// forbidden lists, by package prefix, what its packages must not import
// themselves.
var forbidden = map[string][]string{
	"internal/tenant":          {module, "sigs.k8s.io/controller-runtime", "k8s.io/kubernetes"},
	"api":                      {module + "internal", module + "cmd", "sigs.k8s.io/controller-runtime", "k8s.io/kubernetes"},
	"internal/server":          {module + "internal/standalone", "sigs.k8s.io/controller-runtime", module + "internal/manager", module + "internal/controller", module + "cmd"},
	"internal/spaces":          {module + "internal/standalone", "sigs.k8s.io/controller-runtime", module + "internal/server", module + "internal/manager", module + "cmd"},
	"internal/kubecontrollers": {module + "internal/standalone", "sigs.k8s.io/controller-runtime", module + "internal/manager", module + "internal/controller", module + "cmd"},
	"internal/manager":         {module + "internal/standalone", "k8s.io/kubernetes", module + "internal/server", module + "cmd"},
	"internal/controller":      {module + "internal/standalone", "k8s.io/kubernetes", module + "internal/server", module + "internal/manager", module + "cmd"},
}

func TestImportsPointOneWay(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		for prefix, banned := range forbidden {
			if !within(pkg, prefix) {
				continue
			}
			seen++
			for _, imported := range fields[1:] {
				for _, ban := range banned {
					if within(imported, strings.TrimSuffix(ban, "/")) && !within(strings.TrimPrefix(imported, module), prefix) {
						t.Errorf("%s imports %s", pkg, imported)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no package was checked")
	}
}

func within(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}
