// Package v1alpha1 holds the configuration files of the subcommands, group
// config.tenantry.io. They are read once, when a process starts, but for the
// KeystoneConfiguration, which is read again when it changes.
//
// +kubebuilder:object:generate=true
// +groupName=config.tenantry.io
package v1alpha1
