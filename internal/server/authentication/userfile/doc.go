// Package userfile reads the files in which users stand with their tenants: the
// token file and the basic-auth file (arktos-access-control, "Token File
// Authenticator" and "Basic Auth File Authenticator"). Both are read again when
// they change.
//
// It imports nothing of Kubernetes' server, so that it can be fuzzed.
package userfile
