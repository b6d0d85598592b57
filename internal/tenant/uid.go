package tenant

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

type uidKey struct{}

type admittedTo struct {
	name Name
	uid  types.UID
}

// WithUID returns the context of a request that was admitted to the space of the tenant
// with a name and UID. Earlier and later tenants of the name have other UIDs.
func WithUID(ctx context.Context, n Name, uid types.UID) context.Context {
	return context.WithValue(ctx, uidKey{}, admittedTo{n, uid})
}

// UIDFrom returns the UID of the tenant to whose space the request in ctx was admitted, if
// the name of that tenant is n.
func UIDFrom(ctx context.Context, n Name) (types.UID, bool) {
	to, ok := ctx.Value(uidKey{}).(admittedTo)
	if !ok || to.name != n || to.uid == "" {
		return "", false
	}
	return to.uid, true
}
