// Package identities issues real credentials for tests: client certificates,
// tokens of an OpenID issuer that is served over TLS, and answers of a token
// webhook.
package identities
