// Package controlplane makes, on a host cluster, what a ControlPlane stands for: the keys,
// the servers with their volume, the addresses, and the kubeconfig of the system
// administrator.
//
// One reconcile applies all of it, in the order of Reconciler.ensure, and then says in the
// status what has been observed. Nothing is read from the ControlPlane's servers. What is
// not the ControlPlane's is never changed, and keys that are there are never replaced.
package controlplane
