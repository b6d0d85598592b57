// Package v1alpha1 holds the configuration files of the subcommands, group
// config.tenantry.io. They are read once, when a process starts.
//
// +kubebuilder:object:generate=true
// +groupName=config.tenantry.io
package v1alpha1
