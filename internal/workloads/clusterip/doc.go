// Package clusterip has a host cluster choose the addresses and node ports of the Services of spaces.
//
// The host's Service is made inside the transaction in which upstream's storage creates the space's: before anything
// is stored, by the hooks that upstream's store has for its own allocation. So whoever creates a Service, by whatever
// verb, gets the host's addresses with the answer, and nothing corrects them later. What the host has chosen,
// upstream's allocation then takes from allocators that grant whatever they are asked for: there is one who
// allocates, the host. Services of the system space keep the allocators that they have.
//
// A creation that fails takes the host's Service away again. The syncer looks after what a crash leaves, and after all
// that has been stored: it deletes on the host, by UID, and takes there what changes later without the host's having to
// choose.
package clusterip
