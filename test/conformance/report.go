package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/test/conformance/upstream"
)

// notRun is the outcome of a test that a report does not have.
const notRun = "not run"

// compare prints the outcomes side by side, and returns an error if a test that
// passes in the first cluster does not in another, unless part of its name explains
// why.
func compare(w io.Writer, clusters []string, reports []upstream.Report, explained map[string]string) error {
	tests := make(upstream.Report)
	for _, outcomes := range reports {
		maps.Copy(tests, outcomes)
	}
	counts := make([]int, len(clusters))
	var worse []string
	fmt.Fprintf(w, "| %s | test |\n|%s---|\n", strings.Join(clusters, " | "), strings.Repeat("---|", len(clusters)))
	for _, test := range slices.Sorted(maps.Keys(tests)) {
		row := make([]string, len(clusters))
		for i, outcomes := range reports {
			row[i] = cmp.Or(outcomes[test], notRun)
			if row[i] == upstream.Passed {
				counts[i]++
			}
		}
		if row[0] == upstream.Passed && slices.ContainsFunc(row, func(outcome string) bool { return outcome != upstream.Passed }) {
			if reason := reasonOf(test, explained); reason != "" {
				test += ": " + reason
			} else {
				worse = append(worse, test)
			}
		}
		fmt.Fprintf(w, "| %s | %s |\n", strings.Join(row, " | "), test)
	}
	fmt.Fprintf(w, "\n%d tests; passed:", len(tests))
	for i, cluster := range clusters {
		fmt.Fprintf(w, " %s %d", cluster, counts[i])
	}
	fmt.Fprintln(w)
	switch {
	case counts[0] == 0:
		return fmt.Errorf("no test passed on the %s server, so there is nothing to compare with", clusters[0])
	case len(worse) > 0:
		return fmt.Errorf("passed on the %s server only:\n  %s", clusters[0], strings.Join(worse, "\n  "))
	default:
		return nil
	}
}

func reasonOf(test string, explained map[string]string) string {
	for part, reason := range explained {
		if strings.Contains(test, part) {
			return reason
		}
	}
	return ""
}
