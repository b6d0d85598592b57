// Package network says which NetworkPolicies keep the pods of spaces apart on a host cluster.
//
// It is pure. NetworkPolicies add up, so what a tenant denies cannot be a policy beside one that allows it. In each
// namespace of the host there is a guard, which selects all pods and allows DNS and the API alone, and the servers of
// that API to call webhooks in pods; two policies that allow "same tenant and outside", one for each direction, to pods
// that a label says no policy of the tenant governs; and the tenant's own policies, whose peers are confined to the
// tenant. A pod without that label has what the guard allows and no more: whatever fails leaves it closed.
package network
