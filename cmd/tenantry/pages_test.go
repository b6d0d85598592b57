package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tenantry/tenantry/test/docs"
)

// foreign are flags that pages name and that are of other programs.
var foreign = map[string]string{
	"--bump-revision":  "etcdutl",
	"--mark-compacted": "etcdutl",
	"--profile":        "kubectl",
	"--set":            "helm",
	"--take-ownership": "helm",
}

var (
	// namedCall is a call of tenantry in a command: "REGISTRY/tenantry",
	// "tenantry-system" and the name before "charts/tenantry" are none.
	namedCall = regexp.MustCompile(`(?:^|[\s;&|(./])tenantry ([a-z]+(?:\s[^|;&>\n]*|$|[^/|;&>\na-z][^|;&>\n]*))`)
	namedFlag = regexp.MustCompile(`(?:^|\s)(--?[a-z][a-z0-9-]*)`)
)

// TestPagesNameWhatThereIs checks the commands and the flags that the pages name.
func TestPagesNameWhatThereIs(t *testing.T) {
	pages, err := docs.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	calls, flags := 0, 0
	for _, page := range pages {
		texts := page.Code()
		for _, block := range page.Blocks {
			for _, command := range block.Commands() {
				texts = append(texts, strings.ReplaceAll(command.Text, "\\\n", " "))
			}
		}
		for _, text := range texts {
			if strings.HasPrefix(text, "--") {
				flags++
				checkFlag(t, page, text)
			}
			for _, match := range namedCall.FindAllStringSubmatch(text, -1) {
				calls++
				checkCall(t, page, match[1])
			}
		}
	}
	if calls == 0 || flags == 0 {
		t.Errorf("%d calls and %d flags were checked", calls, flags)
	}
}

// checkCall checks a command and its flags.
func checkCall(t *testing.T, page docs.Page, text string) {
	t.Helper()
	text, behind, isExec := strings.Cut(text, " -- ")
	if isExec {
		checkCall(t, page, "credential keystone "+behind)
	}
	args := strings.Fields(text)
	cmd, _, err := newCommand().Find(args[:1])
	if err != nil || cmd.Name() != args[0] {
		t.Errorf("%s says tenantry %s: there is no command %s", page.Path, text, args[0])
		return
	}
	if len(args) > 1 && cmd.HasSubCommands() {
		cmd, _, _ = cmd.Find(args[1:2])
	}
	cmd.InitDefaultHelpFlag()
	for _, match := range namedFlag.FindAllStringSubmatch(text, -1) {
		if !has(cmd, match[1]) {
			t.Errorf("%s says tenantry %s: the command has no flag %s", page.Path, text, match[1])
		}
	}
}

// checkFlag checks a flag that is named by itself: some command has it. "--tenant-*"
// are all that begin so.
func checkFlag(t *testing.T, page docs.Page, text string) {
	t.Helper()
	name := namedFlag.FindStringSubmatch(text)[1]
	if foreign[name] != "" {
		return
	}
	for _, cmd := range withSubcommands(newCommand()) {
		if strings.HasPrefix(text, name+"*") && hasPrefix(cmd, name) || has(cmd, name) {
			return
		}
	}
	t.Errorf("%s names the flag %s, which no command has", page.Path, text)
}

func has(cmd *cobra.Command, name string) bool {
	long, isLong := strings.CutPrefix(name, "--")
	if isLong {
		return long == "help" || cmd.Flags().Lookup(long) != nil
	}
	return cmd.Flags().ShorthandLookup(name[1:2]) != nil
}

func hasPrefix(cmd *cobra.Command, name string) bool {
	found := false
	cmd.Flags().VisitAll(func(f *pflag.Flag) { found = found || strings.HasPrefix("--"+f.Name, name) })
	return found
}

// TestInstallNamesCommands checks that the page by which somebody installs it has all commands that run something.
func TestInstallNamesCommands(t *testing.T) {
	const page = "docs/guides/install.md"
	content, err := os.ReadFile(filepath.Join(source, page))
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newCommand().Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "completion" {
			continue
		}
		if !strings.Contains(string(content), "| `"+cmd.CommandPath()) {
			t.Errorf("%s lacks %q", page, cmd.CommandPath())
		}
	}
}
