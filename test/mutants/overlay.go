package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tenantry/tenantry/test/harness"
)

// overlay writes files that stand in the place of others, by absolute path, and returns
// the argument with which go builds by them.
func overlay(dir string, replaced map[string][]byte) (string, error) {
	places := map[string]string{}
	for path, content := range replaced {
		places[path] = filepath.Join(dir, fmt.Sprintf("%d_%s", len(places), filepath.Base(path)))
		if err := os.WriteFile(places[path], content, 0o600); err != nil {
			return "", fmt.Errorf("writing a mutant: %w", err)
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": places})
	if err != nil {
		return "", fmt.Errorf("encoding the overlay: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	return "-overlay=" + file, nil
}

// mutant is a change that a test must notice.
type mutant struct {
	// name is what the change takes away.
	name string
	// tests are the arguments of go test, of by and bySpec.
	tests []string
	// file is relative to the module. before must be in it once.
	file, before, after string
}

// by are the tests of a package whose names match a regular expression, all if it is empty. Flags are
// others of go test.
func by(pkg, names string, flags ...string) []string {
	return append([]string{"./" + pkg, "-run=" + names}, flags...)
}

// bySpec are the specs of a Ginkgo suite whose texts match a regular expression.
func bySpec(pkg, texts string) []string {
	return []string{"./" + pkg, "--ginkgo.focus=" + texts}
}

// mutated returns the file with the change.
func (m mutant) mutated(root string) (path string, content []byte, err error) {
	path = filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("reading what is to be changed: %w", err)
	}
	if found := strings.Count(string(source), m.before); found != 1 {
		return "", nil, fmt.Errorf("%s has %q %d times, want once: correct the table", m.file, m.before, found)
	}
	return path, []byte(strings.Replace(string(source), m.before, m.after, 1)), nil
}

// try runs the tests that must notice the mutant.
func (m mutant) try(ctx context.Context, root string) outcome {
	if err := m.tryIn(ctx, root); err != nil {
		return outcome{m.name, err.Error()}
	}
	return outcome{name: m.name}
}

func (m mutant) tryIn(ctx context.Context, root string) error {
	path, content, err := m.mutated(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	by, err := overlay(dir, map[string][]byte{path: content})
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-failfast", by}, m.tests...)...)
	command.Dir = root
	if filepath.Ext(path) == ".yaml" { // tests read manifests themselves, where no overlay is
		manifests := filepath.Join(dir, "manifests")
		if err := os.CopyFS(manifests, os.DirFS(filepath.Dir(path))); err != nil {
			return fmt.Errorf("copying manifests: %w", err)
		}
		if err := os.WriteFile(filepath.Join(manifests, filepath.Base(path)), content, 0o600); err != nil {
			return fmt.Errorf("writing a mutant: %w", err)
		}
		command.Env = append(os.Environ(), harness.ManifestsVariable+"="+manifests)
	}
	out, err := command.CombinedOutput()
	return judge(string(out), err)
}

// judge returns why what go test says does not mean that a test noticed.
func judge(out string, err error) error {
	failed := (*exec.ExitError)(nil)
	switch {
	case err == nil && strings.Contains(out, "no tests to run"):
		return errors.New("no test was run")
	case err == nil:
		return errors.New("it survives: no test has noticed")
	case !errors.As(err, &failed):
		return fmt.Errorf("running the tests: %w", err)
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return fmt.Errorf("it does not compile:\n%s", out)
	case !strings.Contains(out, "FAIL"):
		return fmt.Errorf("no test has failed:\n%s", out)
	default:
		return nil
	}
}
