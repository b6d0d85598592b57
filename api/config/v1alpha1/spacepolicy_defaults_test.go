package v1alpha1

import (
	"strings"
	"testing"
)

func TestParseSpacePolicyConfiguration(t *testing.T) {
	const header = "apiVersion: config.tenantry.io/v1alpha1\nkind: SpacePolicyConfiguration\n"
	for content, want := range map[string]string{
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: [spec.template]}]":                          "",
		"podTemplates: [{group: a.example.com, resource: jobs, paths: [spec.podTemplate, x_y.z-a]}]":                "",
		"nodePlacement: {mode: Limited, allowedLabels: [pool, example.com/pool], allowedTaints: [example.com/A_b]}": "",

		"podTemplates: [{group: argoproj.io, resource: Rollout, paths: [spec.template]}]":                   "podTemplates[0].resource: \"Rollout\"",
		"podTemplates: [{group: argoproj.io, resource: rollouts/status, paths: [spec.template]}]":           "podTemplates[0].resource",
		"podTemplates: [{group: argoproj.io, paths: [spec.template]}]":                                      "podTemplates[0].resource",
		"podTemplates: [{group: argoproj.io/v1alpha1, resource: rollouts, paths: [spec.template]}]":         "podTemplates[0].group: \"argoproj.io/v1alpha1\"",
		"podTemplates: [{resource: rollouts, paths: [spec.template]}]":                                      "podTemplates[0].group",
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: [/spec/template]}]":                 "podTemplates[0].paths[0]: \"/spec/template\"",
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: [spec.template, $.spec.template]}]": "podTemplates[0].paths[1]: \"$.spec.template\"",
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: [.spec.template]}]":                 "podTemplates[0].paths[0]",
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: ['spec.templates[0]']}]":            "podTemplates[0].paths[0]",
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: ['']}]":                             "podTemplates[0].paths[0]",
		"podTemplates: [{group: argoproj.io, resource: rollouts, paths: []}]":                               "podTemplates[0].paths: at least one",

		"nodePlacement: {mode: Limited, allowedLabels: [pool, a=b]}":      "nodePlacement.allowedLabels[1]: \"a=b\"",
		"nodePlacement: {mode: Limited, allowedLabels: ['*']}":            "nodePlacement.allowedLabels[0]: \"*\"",
		"nodePlacement: {mode: Limited, allowedLabels: ['']}":             "nodePlacement.allowedLabels[0]: \"\"",
		"nodePlacement: {mode: Limited, allowedTaints: ['a:NoSchedule']}": "nodePlacement.allowedTaints[0]: \"a:NoSchedule\"",
		"nodePlacement: {allowedTaints: [a]}":                             "need mode: Limited",
	} {
		_, err := ParseSpacePolicyConfiguration([]byte(header + content + "\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want an error with %q", content, err, want)
		}
	}
}
