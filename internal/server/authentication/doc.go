// Package authentication determines the tenant of each user. Every authenticator of the
// server puts the tenant into the user's extra under tenant.UserExtraKey and notes it in
// the request.
package authentication
