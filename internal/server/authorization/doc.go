// Package authorization decides the tenant boundary before any other
// authorizer, the privileged group system:masters included
// (arktos-access-control, "Authorization").
package authorization
