package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Passed is the outcome of a test that has passed.
const Passed = "passed"

// Report is the outcome of each test that has run, by its name.
type Report map[string]string

// Run runs tests against the cluster of a kubeconfig, with more arguments for the binary, and
// writes what they say into out.log. Failed tests are in the report, and no error.
func Run(ctx context.Context, binary, out, kubeconfig string, args ...string) (Report, error) {
	log, err := os.Create(out + ".log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.CommandContext(ctx, binary, append([]string{"-kubeconfig", kubeconfig, "-provider", "local",
		"-allowed-not-ready-nodes=-1", "-num-nodes=1", "-test.timeout=2h", "-ginkgo.timeout=2h", "-ginkgo.no-color",
		"-ginkgo.json-report", out + ".json"}, args...)...)
	command.Stdout, command.Stderr = log, log
	var failed *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("running the suite: %w", err)
	}
	return ReadReport(out + ".json")
}

// ReadReport reads a JSON report of Ginkgo.
func ReadReport(path string) (Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the report: %w", err)
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText, State     string
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("reading the report %s: %w", path, err)
	}
	outcomes := make(Report)
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.LeafNodeText != "" && spec.State != "skipped" {
				outcomes[strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")] = spec.State
			}
		}
	}
	return outcomes, nil
}
