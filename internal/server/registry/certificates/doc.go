// Package certificates refuses CertificateSigningRequests whose signatures take long
// to verify.
//
// Upstream verifies the signature at each write of a request, also of its status and its
// approval, with a key that the author has chosen. The work grows with the square of an RSA
// key's length and does not end with the client's request: a key that fits into a request
// keeps a core busy for minutes. So the key is checked first.
package certificates
