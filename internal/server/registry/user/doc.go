// Package user stores Users, in spaces of tenants alone. Anybody who writes one needs the right to
// bind what the user gets by it. It knows which User has which name, and says on each
// namespace of a space who has created it.
//
// What is made for Users is internal/controller/user's.
package user
