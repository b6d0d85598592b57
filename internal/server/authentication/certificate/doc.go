// Package certificate authenticates by client certificates, in both formats of
// arktos-access-control ("Certificate Authenticator"), and knows which
// authorities may issue identities of the system tenant.
//
// It imports nothing of Kubernetes' server, so that it can be fuzzed.
package certificate
