// Package e2e tests a Tenantry that runs somewhere: the one whose system
// administrator's kubeconfig KUBECONFIG names. It needs nothing else, makes
// tenants with names of its own and deletes them at the end. Run it by
// `make e2e`; without the build tag e2e the package is empty.
package e2e
