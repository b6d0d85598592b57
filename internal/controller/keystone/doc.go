// Package keystone makes domains of OpenStack's Keystone Tenants, their projects namespaces,
// and roles in them bindings, as KeystoneSyncs say.
//
// Each run lists all that Keystone has, compares it with all that there is and writes the
// difference. Nothing is watched, and nothing remembered from one run to the next but what
// stands in annotations. A list that may not be whole changes nothing.
//
// What is made in spaces carries tenant.KeystoneLabel, which the server lets tenant.Publisher
// alone write. A namespace without it is never taken for that of a project. How and why is in
// docs/adr/0021-domains-and-projects-of-keystone-are-synchronised-by-full-runs.md.
package keystone
