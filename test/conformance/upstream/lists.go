package upstream

import (
	"bufio"
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/kubernetes/test/conformance/testdata"
	"sigs.k8s.io/yaml"
)

var (
	//go:embed pods.txt
	pods string
	//go:embed leftout.txt
	leftOut string
)

// Pods returns the names of the conformance tests that run on a real node, most of which need pods.
func Pods() []string {
	var tests []string
	for line := range lines(pods) {
		tests = append(tests, line)
	}
	return tests
}

// Class is why some conformance tests are not run.
type Class struct {
	Reason string
	Tests  []string
}

// LeftOut returns the conformance tests that are not run in spaces, in classes of reasons.
func LeftOut() ([]Class, error) {
	var classes []Class
	for line := range lines(leftOut) {
		reason, ok := strings.CutPrefix(line, "# ")
		switch {
		case ok:
			classes = append(classes, Class{Reason: reason})
		case len(classes) == 0:
			return nil, fmt.Errorf("%s has no reason before it", line)
		default:
			last := &classes[len(classes)-1]
			last.Tests = append(last.Tests, line)
		}
	}
	return classes, nil
}

// lines yields the lines that are not empty.
func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
			if line := strings.TrimSpace(scanner.Text()); line != "" && !yield(line) {
				return
			}
		}
	}
}

// Conformance returns the names of all conformance tests, from upstream's list, which is what the
// tests of its own say to be complete.
func Conformance() ([]string, error) {
	data, err := testdata.GetConformanceTestdataFS().EmbeddedFS.ReadFile("conformance.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading upstream's list of conformance tests: %w", err)
	}
	var list []struct{ Codename string }
	if err := yaml.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("reading upstream's list of conformance tests: %w", err)
	}
	names := make([]string, len(list))
	for i, test := range list {
		names[i] = test.Codename
	}
	return names, nil
}

// Focus returns the argument of -ginkgo.focus for a part of the tests, the i-th of n.
func Focus(tests []string, i, n int) string {
	var expressions []string
	for ; i < len(tests); i += n {
		expressions = append(expressions, regexp.QuoteMeta(tests[i])+"$")
	}
	return strings.Join(expressions, "|")
}
