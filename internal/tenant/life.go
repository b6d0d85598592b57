package tenant

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

type lifeKey struct{}

type life struct {
	name Name
	uid  types.UID
}

// WithLife returns the context of a request that was admitted to the space of the tenant
// of a name and UID: there may be others of that name, before and after it.
func WithLife(ctx context.Context, n Name, uid types.UID) context.Context {
	return context.WithValue(ctx, lifeKey{}, life{n, uid})
}

// LifeIn returns the UID of the tenant to whose space the request in ctx was admitted, if
// it was admitted to that of n.
func LifeIn(ctx context.Context, n Name) (types.UID, bool) {
	l, ok := ctx.Value(lifeKey{}).(life)
	if !ok || l.name != n || l.uid == "" {
		return "", false
	}
	return l.uid, true
}
