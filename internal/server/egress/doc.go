// Package egress connects the server to addresses that a tenant chooses: those of its
// webhooks for admission and for the conversion of its custom resources.
//
// A tenant must not learn from a webhook what the server can reach. So the platform's
// own addresses are denied before a connection is made, and all failures to reach a webhook
// look the same.
package egress
