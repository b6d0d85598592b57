package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// currentVersion returns the version of the project, with its v.
func currentVersion(root string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, "internal", "version", "version.go"))
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(`(?m)^const Version = "(v[^"]+)"$`).FindSubmatch(content)
	if match == nil {
		return "", errors.New("internal/version has no constant Version")
	}
	return string(match[1]), nil
}

func writeMetadata(to, version string) error {
	return chartutil.SaveChartfile(filepath.Join(to, chartutil.ChartfileName), &chart.Metadata{
		APIVersion:  chart.APIVersionV2,
		Name:        "tenantry",
		Description: "The operator of control planes of Tenantry, in which every tenant has a virtual cluster of its own.",
		Type:        "application",
		Version:     strings.TrimPrefix(version, "v"),
		AppVersion:  version,
		KubeVersion: ">=1.31.0-0",
		Home:        "https://github.com/tenantry/tenantry",
		Sources:     []string{"https://github.com/tenantry/tenantry"},
		Keywords:    []string{"multi-tenancy", "tenant", "virtual cluster", "control plane"},
	})
}
