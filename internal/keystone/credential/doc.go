// Package credential logs in to Keystone for kubectl and other clients of Kubernetes, as
// an exec credential plugin: it reads the clouds and variables that OpenStack's clients
// read, and prints an ExecCredential with a token.
//
// Tokens are kept in files until they expire, and nothing else is: no password is written
// anywhere. Errors and logs have no token, no password and nothing of the body of an answer.
// It knows no server of Tenantry.
package credential
