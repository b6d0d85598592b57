// Package connect serves the connections to pods of spaces that run on a host cluster: logs, exec, attach
// and port-forward, and what these pods use.
//
// They go through the host's API server, to the pod that the UIDs of the tenant, the namespace and the pod
// name. Nothing that a tenant can write, such as a pod's node or address, says where a connection goes, and
// nothing that a client sends says who makes it.
package connect
