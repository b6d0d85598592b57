// Package keystone asks OpenStack's Keystone what a token may do, with the account of a
// service. It knows nothing of tenants and users.
//
// Its errors have a status code and the id of the request that Keystone logs, and never a
// body, a token or a password: some of Keystone's answers repeat the token.
package keystone
