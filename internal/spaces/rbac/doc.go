// Package rbac answers what RBAC objects hold in a space: the getters and listers
// that upstream's RBAC authorizer, rule resolver and escalation checks take, for
// all spaces from one index. The space is the effective one of the context.
//
// The cost of an answer does not depend on the number of other spaces, and an
// answer allocates nothing.
//
// The default ClusterRoles hold in every space without being stored there; an
// object of the space with the same name takes precedence. Of the default
// ClusterRoleBindings only those for everyday users hold in a space: none that
// gives rights to system:masters, nodes or components of the control plane.
package rbac
