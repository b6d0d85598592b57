// Package v1alpha1 is the API of tenants, group tenantry.io.
//
// The same Go types are served as core v1, as Arktos serves Tenants, so that manifests
// written for it work.
//
// +kubebuilder:object:generate=true
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=io.tenantry.api.v1alpha1
// +groupName=tenantry.io
package v1alpha1
