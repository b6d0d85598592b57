// Package keystonesync stores KeystoneSyncs, in the system space alone. Anybody who writes one
// needs the right to bind each ClusterRole that it names.
package keystonesync
