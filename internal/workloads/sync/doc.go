// Package sync has the syncer, which runs the pods of all tenants' spaces on one host cluster.
//
// It reads all spaces in the flattened view and the host by informers of what has the installation's
// label, and has no other state: a restart reads both sides and writes what differs. Work is by object,
// level-triggered, in a queue in which tenants take turns. Into spaces go the status, the binding and
// the deletion of pods, the status and volume of claims, the status of Ingresses and HTTPRoutes, and events; into the system space the nodes. Onto
// the host go namespaces at their first use, pods, Services and their EndpointSlices, claims, Ingresses, HTTPRoutes, network policies, PodDisruptionBudgets, and copies
// of the ConfigMaps and Secrets that live pods and Ingresses name.
//
// Nothing on the host is changed or deleted but by its UID and with the marks of this installation, tenant
// and namespace. An idle tenant has nothing here: no host object, goroutine, watch or entry.
package sync
