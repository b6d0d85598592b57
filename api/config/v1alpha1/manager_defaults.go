package v1alpha1

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Default fills in what c leaves open. The built-in quota limits what costs other
// tenants something and leaves out what the platform itself keeps in every
// namespace, such as the certificate authority's ConfigMap.
func (c *ManagerConfiguration) Default() {
	if c.DefaultQuota == nil {
		c.DefaultQuota = corev1.ResourceList{
			corev1.ResourcePods:                   resource.MustParse("1000"),
			corev1.ResourceServices:               resource.MustParse("500"),
			corev1.ResourcePersistentVolumeClaims: resource.MustParse("500"),
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
}

// Validate reports the first thing that is wrong with c.
func (c *ManagerConfiguration) Validate() error {
	if c.APIVersion != GroupVersion.String() || c.Kind != "ManagerConfiguration" {
		return fmt.Errorf("apiVersion %q, kind %q: want %q, %q", c.APIVersion, c.Kind, GroupVersion, "ManagerConfiguration")
	}
	if len(c.DefaultQuota) == 0 && c.DefaultQuota != nil {
		return fmt.Errorf("defaultQuota: every tenant has a quota, so it needs at least one limit; leave the field out for the built-in default")
	}
	for name, limit := range c.DefaultQuota {
		if limit.Sign() < 0 {
			return fmt.Errorf("defaultQuota: %s: %s is negative", name, limit.String())
		}
	}
	if c.Concurrency < 0 {
		return fmt.Errorf("concurrency: %d is negative", c.Concurrency)
	}
	return nil
}

// LoadManagerConfiguration reads a configuration file, JSON or YAML, validates
// it and fills in the defaults. An unknown field is an error. Without a path it
// returns the defaults.
func LoadManagerConfiguration(path string) (*ManagerConfiguration, error) {
	c := &ManagerConfiguration{}
	if path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the manager's configuration: %w", err)
		}
		if err := yaml.UnmarshalStrict(content, c); err != nil {
			return nil, fmt.Errorf("reading the manager's configuration %q: %w", path, err)
		}
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("the manager's configuration %q: %w", path, err)
		}
	}
	c.Default()
	return c, nil
}
