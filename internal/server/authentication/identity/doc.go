// Package identity makes the users of all authenticators. It alone writes
// tenant.UserExtraKey into a user's extra, and it holds the rules for names, groups and
// tenants that are the same for every kind of credential.
//
// It is a leaf and pure, so that readers of credentials can be fuzzed.
package identity
