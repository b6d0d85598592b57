// Package authentication tells which tenant a user belongs to. Every
// authenticator of the server puts the tenant into the user's extra under
// tenant.UserExtraKey and notes it in the request (arktos-access-control,
// "Authentication").
package authentication
