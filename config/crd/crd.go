// Package crd embeds the generated CustomResourceDefinitions, so that the
// server validates by the same schema that a host cluster is given.
package crd

import _ "embed"

// Tenants is the CustomResourceDefinition of Tenant, in YAML.
//
//go:embed tenantry.io_tenants.yaml
var Tenants []byte

// TenantAccessPolicies is the CustomResourceDefinition of TenantAccessPolicy, in
// YAML. It is served in spaces and not part of kustomization.yaml, which is for
// host clusters.
//
//go:embed tenantry.io_tenantaccesspolicies.yaml
var TenantAccessPolicies []byte

// PublishedObjects is the CustomResourceDefinition of PublishedObject, in YAML. It
// is served in the system space.
//
//go:embed tenantry.io_publishedobjects.yaml
var PublishedObjects []byte

// KeystoneSyncs is the CustomResourceDefinition of KeystoneSync, in YAML. It is served
// in the system space.
//
//go:embed tenantry.io_keystonesyncs.yaml
var KeystoneSyncs []byte

// Users is the CustomResourceDefinition of User, in YAML. It is served in spaces.
//
//go:embed tenantry.io_users.yaml
var Users []byte

// ControlPlanes is the CustomResourceDefinition of ControlPlane, in YAML. It is for host
// clusters.
//
//go:embed tenantry.io_controlplanes.yaml
var ControlPlanes []byte
