// Package version says which version of Tenantry, and of Kubernetes' libraries, a
// binary is made of.
package version
