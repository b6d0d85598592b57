// Package operator assembles the operator of a host cluster: the scheme, the caches of the
// namespaces that it works in, and the list of controllers. Package manager is its
// counterpart inside of a control plane.
package operator
