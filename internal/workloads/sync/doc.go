// Package sync has the syncer, which runs the pods of all tenants' spaces on one host cluster.
//
// It reads all spaces in the flattened view and the host by informers of what has the
// installation's label: a restart reads both sides and writes what differs. What both cannot
// say, which deleted tenants had namespaces on the host that still go, is in one ConfigMap of
// the system space. Work is by object, level-triggered, in a queue in which tenants take turns. Into
// spaces go the status, the binding and the deletion of pods, the status and volume of claims,
// the status of Ingresses and HTTPRoutes, and events; into the system space the nodes, that ConfigMap, and
// the receipts, events that deleted tenants have nothing on the host any more. Onto the
// host go namespaces at their first use, pods, claims, Services and their EndpointSlices,
// Ingresses, HTTPRoutes, network policies, PodDisruptionBudgets, and copies of the ConfigMaps
// and Secrets that live pods and Ingresses name.
//
// Nothing on the host is changed or deleted but by its UID and with the marks of this
// installation, tenant and namespace. No tenant has a goroutine or a watch here, nor, an hour
// after its last pod, Service or claim, an object on the host. What is remembered of a tenant
// goes with the object that it is about; what was counted of its writes goes when something is
// written for a tenant that had none of late.
package sync
