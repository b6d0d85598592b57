package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Protection decides about changes of objects; see RESTOptionsGetter.Protect.
type Protection func(ctx context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(after runtime.Object) error

// ProtectAll returns a protection that refuses what any of the given ones refuses.
func ProtectAll(protections ...Protection) Protection {
	return func(ctx context.Context, n tenant.Name, resource schema.GroupResource, before runtime.Object) func(after runtime.Object) error {
		decisions := make([]func(runtime.Object) error, len(protections))
		for i, protect := range protections {
			decisions[i] = protect(ctx, n, resource, before)
		}
		return allOf(decisions...)
	}
}

// allOf returns what refuses an object that any of the given ones refuses, which are asked in their order.
func allOf(decisions ...func(after runtime.Object) error) func(after runtime.Object) error {
	return func(after runtime.Object) error {
		for _, decide := range decisions {
			if err := decide(after); err != nil {
				return err
			}
		}
		return nil
	}
}
