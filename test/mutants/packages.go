package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// fastPackage is a package of whose conditions the operators make mutants.
type fastPackage struct {
	dir string
	// files are those with mutants; all of the package by default.
	files []string
	// tests is a regular expression of the tests to run; all by default.
	tests string
}

// equivalent is a mutant that no test can notice, because it does the same.
type equivalent struct {
	file, function, operator, text string
	// nth tells it from others of the same text in the function, from 0.
	nth int
	why string
}

func (e equivalent) is(s site) bool {
	return e.file == s.file && e.function == s.function && e.operator == s.operator && e.text == s.text && e.nth == s.nth
}

// timeout ends mutants that never do.
const timeout = "30s"

// try tries the mutants of the package.
func (p fastPackage) try(ctx context.Context, root string, wanted choice) ([]outcome, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	replaced, sites, err := p.instrumented(root)
	if err != nil {
		return nil, err
	}
	sites = slices.DeleteFunc(sites, func(s site) bool { return !wanted.has(s.id, s.file) })
	if len(sites) == 0 {
		return nil, nil
	}
	by, err := overlay(dir, replaced)
	if err != nil {
		return nil, err
	}
	binary := filepath.Join(dir, "mutants.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", by, "-o", binary, "./"+p.dir)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building: %w\n%s", err, out)
	}
	if survives, out := p.survives(ctx, root, binary, ""); !survives {
		return nil, fmt.Errorf("the tests fail without a mutant:\n%s", out)
	}
	return p.tryAll(ctx, root, binary, sites), ctx.Err()
}

// instrumented returns the files of the package that can be mutants, and these.
func (p fastPackage) instrumented(root string) (map[string][]byte, []site, error) {
	dir := filepath.Join(root, p.dir)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, fmt.Errorf("looking for files: %w", err)
	}
	replaced, name, all := map[string][]byte{}, "", []site(nil)
	for _, path := range files {
		file := filepath.Base(path)
		if strings.HasSuffix(file, "_test.go") || p.files != nil && !slices.Contains(p.files, file) {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading what is to be changed: %w", err)
		}
		content, sites, err := instrument(filepath.Join(p.dir, file), source)
		if err != nil {
			return nil, nil, err
		}
		replaced[path], all = []byte(content), append(all, sites...)
		name = packageClause.FindString(content)
	}
	if len(all) == 0 {
		return nil, nil, errors.New("there is no condition: correct the table")
	}
	replaced[filepath.Join(dir, "zz_mutants.go")] = []byte(name + helpers)
	return replaced, all, nil
}

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

// tryAll tries some mutants at a time.
func (p fastPackage) tryAll(ctx context.Context, root, binary string, sites []site) []outcome {
	outcomes := make([]outcome, len(sites))
	free := make(chan struct{}, runtime.NumCPU())
	var running sync.WaitGroup
	for i, s := range sites {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			survives, _ := p.survives(ctx, root, binary, s.id)
			outcomes[i] = outcome{s.id, s.problem(survives)}
		})
	}
	running.Wait()
	return outcomes
}

// problem returns what is wrong with a mutant that survives, or does not.
func (s site) problem(survives bool) string {
	same := slices.ContainsFunc(equivalents, func(e equivalent) bool { return e.is(s) })
	switch {
	case survives && !same:
		return "it survives: no test has noticed: " + s.text
	case !survives && same:
		return "it is said to be equivalent, and a test has noticed: correct the table: " + s.text
	default:
		return ""
	}
}

// survives reports whether the tests of a binary pass as a mutant.
func (p fastPackage) survives(ctx context.Context, root, binary, id string) (bool, []byte) {
	command := exec.CommandContext(ctx, binary, "-test.failfast", "-test.timeout="+timeout, "-test.run="+p.tests)
	command.Dir = filepath.Join(root, p.dir)
	command.Env = append(os.Environ(), variable+"="+id)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	return command.Run() == nil, out.Bytes()
}
