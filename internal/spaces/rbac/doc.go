// Package rbac indexes the RBAC objects of all spaces. It implements the getters and
// listers that upstream's RBAC authorizer, rule resolver and escalation checks take. The
// space is the effective one of the context.
//
// The cost of an answer does not depend on the number of other spaces, and an
// answer allocates nothing, except the first one after a change in the space: what answers need
// is not made when objects change, because the changes of all spaces come one after another.
//
// The default ClusterRoles hold in every space without being stored there; an object of the
// space with the same name has precedence. Of the default ClusterRoleBindings only those
// for ordinary users hold in a space, not those that give rights to system:masters, nodes
// or components of the control plane.
package rbac
