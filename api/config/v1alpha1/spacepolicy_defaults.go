package v1alpha1

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// ParseSpacePolicyConfiguration reads the configuration of SpacePolicy, validates
// it and fills in the defaults. An unknown field is an error. Nothing is the
// default.
func ParseSpacePolicyConfiguration(content []byte) (*SpacePolicyConfiguration, error) {
	c := &SpacePolicyConfiguration{}
	if len(content) > 0 {
		if err := readStrict(content, c); err != nil {
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
	for name, keys := range map[string][]string{"allowedLabels": placement.AllowedLabels, "allowedTaints": placement.AllowedTaints} {
		for i, key := range keys {
			if problems := validation.IsQualifiedName(key); len(problems) > 0 {
				return fmt.Errorf("nodePlacement.%s[%d]: %q is not a key alone, such as example.com/pool: %s", name, i, key, strings.Join(problems, "; "))
			}
		}
	}
	for i, templates := range c.PodTemplates {
		if err := templates.validate(); err != nil {
			return fmt.Errorf("podTemplates[%d].%w", i, err)
		}
	}
	return nil
}

// fieldName is what a name between the dots of a path may be.
var fieldName = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_]*$`)

// validate refuses what is no place in any custom resource: pods there would not be checked.
func (t *PodTemplates) validate() error {
	if problems := validation.IsDNS1123Subdomain(t.Group); len(problems) > 0 {
		return fmt.Errorf("group: %q is not the API group of a custom resource without its version, such as argoproj.io: %s", t.Group, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1035Label(t.Resource); len(problems) > 0 {
		return fmt.Errorf("resource: %q is not the plural name of a custom resource, such as rollouts: %s", t.Resource, strings.Join(problems, "; "))
	}
	if len(t.Paths) == 0 {
		return errors.New("paths: at least one is needed, such as spec.template")
	}
	for i, path := range t.Paths {
		for name := range strings.SplitSeq(path, ".") {
			if !fieldName.MatchString(name) {
				return fmt.Errorf("paths[%d]: %q is not names of fields with dots between them, such as spec.template", i, path)
			}
		}
	}
	return nil
}
