// Package identities issues real credentials for tests: tokens of an OpenID issuer that
// is served over TLS, answers of a token webhook, and requests of certificates. Client
// certificates are those of a pki.Authority.
package identities
