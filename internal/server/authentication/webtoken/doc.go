// Package webtoken reads the claims of JSON web tokens without verifying them: to find
// the authenticator of a token, or more claims of a verified one.
package webtoken
