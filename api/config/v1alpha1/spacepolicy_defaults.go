package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// ParseSpacePolicyConfiguration reads the configuration of SpacePolicy, validates
// it and fills in the defaults. An unknown field is an error. Nothing is the
// default.
func ParseSpacePolicyConfiguration(content []byte) (*SpacePolicyConfiguration, error) {
	c := &SpacePolicyConfiguration{}
	if len(content) > 0 {
		if err := yaml.UnmarshalStrict(content, c); err != nil {
			return nil, fmt.Errorf("reading the configuration of SpacePolicy: %w", err)
		}
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("the configuration of SpacePolicy: %w", err)
		}
	}
	if c.NodePlacement.Mode == "" {
		c.NodePlacement.Mode = v1alpha1.NodePlacementDisabled
	}
	if c.DaemonSets.Mode == "" {
		c.DaemonSets.Mode = v1alpha1.DaemonSetsRefused
	}
	return c, nil
}

// Validate reports the first thing that is wrong with c.
func (c *SpacePolicyConfiguration) Validate() error {
	if c.APIVersion != GroupVersion.String() || c.Kind != "SpacePolicyConfiguration" {
		return fmt.Errorf("apiVersion %q, kind %q: want %q, %q", c.APIVersion, c.Kind, GroupVersion, "SpacePolicyConfiguration")
	}
	placement := c.NodePlacement
	switch placement.Mode {
	case v1alpha1.NodePlacementLimited:
	case "", v1alpha1.NodePlacementDisabled, v1alpha1.NodePlacementEnabled:
		if len(placement.AllowedLabels)+len(placement.AllowedTaints) > 0 {
			return fmt.Errorf("nodePlacement: allowedLabels and allowedTaints need mode: %s", v1alpha1.NodePlacementLimited)
		}
	default:
		return fmt.Errorf("nodePlacement.mode: %q is not Disabled, Limited or Enabled", placement.Mode)
	}
	switch c.DaemonSets.Mode {
	case "", v1alpha1.DaemonSetsRefused, v1alpha1.DaemonSetsInert:
	default:
		return fmt.Errorf("daemonSets.mode: %q is not Refused or Inert", c.DaemonSets.Mode)
	}
	for i, templates := range c.PodTemplates {
		switch {
		case templates.Group == "" || templates.Resource == "":
			return fmt.Errorf("podTemplates[%d]: group and resource of a custom resource are needed", i)
		case len(templates.Paths) == 0:
			return fmt.Errorf("podTemplates[%d].paths: at least one is needed", i)
		case slices.ContainsFunc(templates.Paths, func(path string) bool { return slices.Contains(strings.Split(path, "."), "") }):
			return fmt.Errorf("podTemplates[%d].paths: %q: want names with dots between them", i, templates.Paths)
		}
	}
	return nil
}
