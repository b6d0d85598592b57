package storage

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type definitionKey struct{}

// WithDefinition returns a context in which custom resources are written as long as changed does not report that their definition is another
// one than when the request came.
func WithDefinition(ctx context.Context, changed func() bool) context.Context {
	return context.WithValue(ctx, definitionKey{}, changed)
}

// StillDefined returns an error if the definition of a custom resource has changed since the request came that writes it. A webhook of the tenant
// may have delayed it, and caches would make of the object what nobody has compared with what the space may have.
func StillDefined(ctx context.Context) error {
	if changed, ok := ctx.Value(definitionKey{}).(func() bool); ok && changed() {
		return apierrors.NewTooManyRequests("the definition of the resource has changed since the request came; try again", 1)
	}
	return nil
}
