package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// TestTable checks that what the table takes away is still there, without building it.
func TestTable(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table {
		if _, _, err := m.mutated(root); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	var all []site
	for _, p := range packages {
		_, sites, err := p.instrumented(root)
		if err != nil {
			t.Errorf("%s: %v", p.dir, err)
		}
		all = append(all, sites...)
	}
	for _, e := range equivalents {
		if !slices.ContainsFunc(all, e.is) {
			t.Errorf("%s, %s: there is no mutant of %q any more: correct the table", e.file, e.function, e.text)
		}
	}
}

// TestPackage tries the mutants of one package, whose tests take a moment.
func TestPackage(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := packages[0].try(t.Context(), root, choice{regexp.MustCompile(""), regexp.MustCompile("")})
	if err != nil {
		t.Fatal(err)
	}
	if len(outcomes) == 0 {
		t.Error("there are no mutants")
	}
	for _, o := range outcomes {
		if o.problem != "" {
			t.Error(o)
		}
	}
}

// TestInstrument checks that a file can be each of its mutants, one within the other.
func TestInstrument(t *testing.T) {
	const source = `package p

import "strings"

func f(a, b string, ok bool) bool {
	if ok && (a != "" ||
		strings.EqualFold(a, b)) {
		return true
	}
	return false
}
`
	const want = `package p

import "strings"

func f(a, b string, ok bool) bool {
	if mutantIs("f.go:6:5 negate") != (!mutantIs("f.go:6:5 never") && (mutantAnd("f.go:6:8 and/or", ok , func() bool { return ( (mutantOr("f.go:6:20 and/or", a != "" , func() bool { return (
		mutantFold("f.go:7:3 fold", strings.EqualFold)(a, b)) }))) }))) {
		return true
	}
	return false
}
`
	got, sites, err := instrument("f.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if len(sites) != 5 {
		t.Errorf("got %d mutants, want 5", len(sites))
	}
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestJudge checks what counts as noticed.
func TestJudge(t *testing.T) {
	failed := exitError(t)
	for name, tc := range map[string]struct {
		out     string
		err     error
		noticed bool
	}{
		"a test has failed":     {"--- FAIL: TestX\nFAIL\n", failed, true},
		"a panic":               {"panic: x\nFAIL\tp 0.1s\n", failed, true},
		"no test has failed":    {"ok\n", nil, false},
		"no test was run":       {"ok p 0.1s [no tests to run]\n", nil, false},
		"it does not compile":   {"FAIL\tp [build failed]\n", failed, false},
		"it cannot be imported": {"FAIL\tp [setup failed]\n", failed, false},
		"go itself has failed":  {"go: no such tool\n", failed, false},
		"go is not there":       {"", os.ErrNotExist, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := judge(tc.out, tc.err); (err == nil) != tc.noticed {
				t.Errorf("noticed: %t, want %t: %v", err == nil, tc.noticed, err)
			}
		})
	}
}

// exitError returns that of a command that has failed.
func exitError(t *testing.T) error {
	t.Helper()
	err := exec.Command("go", "tool", "no-such-tool").Run()
	if err == nil {
		t.Fatal("the command has not failed")
	}
	return err
}
