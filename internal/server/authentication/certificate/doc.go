// Package certificate authenticates by client certificates, whose subject names the tenant
// in one of two formats, and knows which authorities may issue identities of the system
// tenant.
//
// It imports nothing of Kubernetes' server, so that it can be fuzzed.
package certificate
