// Package signing issues the certificates of approved CertificateSigningRequests, in
// every space.
//
// Certificates by an authority of the server make users of the server. So only the
// user's name, its groups and the public key of a request go into a certificate. The
// tenant is that of the space in which the request was approved. The package does
// not decide who may approve: that is RBAC of the space, in admission.
package signing
