package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/test/conformance/upstream"
)

// page says of all conformance tests whether they pass in a space.
const page = "../../docs/reference/kubernetes-versions.md"

// TestEveryConformanceTestIsSomewhere checks that each is run here, or on a real node, or left out
// for a reason, and that the page has each reason with the number of tests.
func TestEveryConformanceTestIsSomewhere(t *testing.T) {
	all, err := upstream.Conformance()
	if err != nil {
		t.Fatal(err)
	}
	classes, err := upstream.LeftOut()
	if err != nil {
		t.Fatal(err)
	}
	where := map[string][]string{}
	here := 0
	focus, skip := regexp.MustCompile(suites), regexp.MustCompile(needsContainers+needsNodes+needsMore)
	for _, test := range all {
		where[test] = nil
		if focus.MatchString(test) && !skip.MatchString(test) {
			where[test] = []string{"make conformance"}
			here++
		}
	}
	rows := []string{fmt.Sprintf("| %d | by `make conformance` |", here), fmt.Sprintf("| %d | by `make e2e-node-conformance` |", len(upstream.Pods()))}
	add := func(test, place string) {
		if _, ok := where[test]; !ok {
			t.Errorf("%s: there is no conformance test of that name, which %s names", test, place)
		}
		where[test] = append(where[test], place)
	}
	for _, test := range upstream.Pods() {
		add(test, "pods.txt")
	}
	for _, class := range classes {
		rows = append(rows, fmt.Sprintf("| %d | %s |", len(class.Tests), class.Reason))
		for _, test := range class.Tests {
			add(test, "leftout.txt: "+class.Reason)
		}
	}
	for _, test := range all {
		if len(where[test]) != 1 {
			t.Errorf("%s is in %q, and belongs into one place: pods.txt if it passes on a real node, or leftout.txt", test, where[test])
		}
	}
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if !strings.Contains(string(content), row) {
			t.Errorf("%s has no row %s", page, row)
		}
	}
}
