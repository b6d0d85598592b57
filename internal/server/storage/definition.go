package storage

import (
	"context"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tenantry/tenantry/internal/etcdstore"
)

type definitionKey struct{}

// Definition is that of a custom resource which a request writes.
type Definition struct {
	// ResourceVersion is the one that the server knew when the request came.
	ResourceVersion string
	// Changed reports whether it is another one by now.
	Changed func() bool
}

// WithDefinition returns a context in which custom resources are written as long as their definition is what it was
// when the request came.
func WithDefinition(ctx context.Context, d Definition) context.Context {
	return context.WithValue(ctx, definitionKey{}, d)
}

// errChanged is of writes whose definition is another one than when the request came.
var errChanged = apierrors.NewTooManyRequests("the definition of the resource has changed since the request came; try again", 1)

// StillDefined returns an error if the definition of a custom resource has changed since the request came that writes
// it. A webhook of the tenant may have delayed it, and caches would make of the object what nobody has compared with
// what the space may have.
func StillDefined(ctx context.Context) error {
	if d, ok := ctx.Value(definitionKey{}).(Definition); ok && d.Changed() {
		return errChanged
	}
	return nil
}

// whileDefined returns the context of a write of a custom resource that the space itself defines. etcd refuses to
// create it when the definition is another one, or being deleted: the object is encoded after StillDefined, by a
// webhook of the tenant, which may take until the definition is gone. It would be there without one, or by one that the
// platform publishes, which could not decode it for anybody.
func (s *Space) whileDefined(ctx context.Context) context.Context {
	d, ok := ctx.Value(definitionKey{}).(Definition)
	revision, err := strconv.ParseInt(d.ResourceVersion, 10, 64)
	if !ok || s.definedBy == "" || err != nil {
		return ctx
	}
	return etcdstore.WithUnchanged(ctx, etcdstore.Unchanged{Key: s.definedBy, Revision: revision, Refused: errChanged})
}

// definedBy returns the key in etcd of the definition of a resource that one space has of its own, empty if there is
// none or it is in another etcd.
func (g *RESTOptionsGetter) definedBy(resource schema.GroupResource, transport storagebackend.TransportConfig) string {
	n, one := g.Of.Tenant()
	if !one {
		return ""
	}
	for _, stored := range g.Ranges.of(definitions) {
		if !stored.custom && reflect.DeepEqual(stored.transport.ServerList, transport.ServerList) {
			return stored.prefix + string(n) + "/" + resource.String()
		}
	}
	return ""
}
