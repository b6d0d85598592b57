// Package certificates refuses CertificateSigningRequests whose signature would take long
// to verify.
//
// Upstream verifies it at each write of a request, also of its status and its approval,
// and whoever wrote the request chose the key. The work grows with the square of an RSA
// key's length and does not end when the client goes: a key that fits into a request
// keeps a core busy for minutes. So the key is looked at first.
package certificates
