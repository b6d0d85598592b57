// Package crd embeds the generated CustomResourceDefinitions, so that the
// server validates by the same schema that a host cluster is given.
package crd

import _ "embed"

// Tenants is the CustomResourceDefinition of Tenant, in YAML.
//
//go:embed tenantry.io_tenants.yaml
var Tenants []byte
