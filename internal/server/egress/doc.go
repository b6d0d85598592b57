// Package egress connects the server to addresses that a tenant chooses: those of its
// webhooks for admission and for the conversion of its custom resources.
//
// A tenant must not learn from a webhook what the server can reach. So the platform's
// own addresses are denied before a connection is made, and all failures to reach a webhook
// look the same. Pods of all tenants let the servers in, where they run on a host: so another
// tenant's Services are denied as well, and the tenant's own are not.
//
// A tenant must not keep the server busy by a webhook, either. A call goes through, outermost
// first (Options.restrict): answers (size of the response, no redirects, what a patch or
// conversion may make), opaque (one error for all failures), waiting.Transport and withTimeout
// (for how long others wait), sent (bytes per second), handshakes (one certificate at a time),
// and bounded (connections). What a tenant has had of late is the process's, since transports
// come and go.
package egress
