//go:build node

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/tenantry/tenantry/test/docs"
)

// guide is the page on which the three ways of installing are.
const guide = "docs/guides/install-the-operator.md"

// follow does what the block of the guide says that begins with a command, and compares what
// is printed. It runs in a directory with the files of the page and those of the repository.
func follow(first string) {
	GinkgoHelper()
	pages, err := docs.Read(root)
	Expect(err).NotTo(HaveOccurred())
	dir := GinkgoT().TempDir()
	for _, name := range []string{"config", "charts"} {
		absolute, err := filepath.Abs(filepath.Join(root, name))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(absolute, filepath.Join(dir, name))).To(Succeed())
	}
	found := false
	for _, page := range pages {
		if page.Path != guide {
			continue
		}
		for _, block := range page.Blocks {
			if name := block.File(); name != "" {
				Expect(os.WriteFile(filepath.Join(dir, name), []byte(block.Text), 0o600)).To(Succeed())
			}
			commands := block.Commands()
			if block.Language != docs.Console || len(commands) == 0 || commands[0].Text != first {
				continue
			}
			found = true
			for _, command := range commands {
				run := exec.Command("bash", "-c", command.Text)
				run.Dir = dir
				out, err := run.CombinedOutput()
				printed := strings.TrimSpace(string(out))
				GinkgoWriter.Printf("$ %s\n%s\n", command.Text, printed)
				Expect(err).NotTo(HaveOccurred(), "%s:%d: %s", guide, command.Line, printed)
				if len(command.Output) > 0 {
					want := strings.Join(command.Output, "\n")
					Expect(docs.Matches(want, printed)).To(BeTrue(), "%s:%d prints\n%s\nand not\n%s", guide, command.Line, printed, want)
				}
			}
		}
	}
	Expect(found).To(BeTrue(), "%s has no block that begins with %q", guide, first)
}
