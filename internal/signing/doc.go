// Package signing issues the certificates of approved CertificateSigningRequests, in
// every space.
//
// What an authority of the server signs makes users of the server. So nothing of a
// request goes into a certificate but the user's name, its groups and the public key;
// the tenant is that of the space in which the request was approved. The package does
// not decide who may approve: that is RBAC of the space, asked in admission.
package signing
