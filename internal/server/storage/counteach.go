package storage

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/tenant"
)

// CountEach returns, for each of the resources, the number of objects that tenant n has in etcd, in all namespaces or
// in the given one. It asks etcd for a hundred of them at once, and then for what there is of those that have some.
func (r *Ranges) CountEach(ctx context.Context, n tenant.Name, resources []schema.GroupResource, namespace string) (map[schema.GroupResource]int64, error) {
	wanted := sets.New(resources...)
	ranges, err := r.ofAll(ctx, n, wanted)
	if err != nil {
		return nil, err
	}
	found, err := r.count(ctx, n, namespace, ranges)
	if err != nil {
		return nil, err
	}
	counts := make(map[schema.GroupResource]int64, len(wanted))
	for resource := range wanted {
		counts[resource] = 0
	}
	for _, o := range found {
		count, err := o.count(ctx, n)
		if err != nil {
			return nil, err
		}
		counts[o.stored.resource] += count
	}
	return counts, nil
}

// ofAll returns the ranges of the resources, those of what the space of n defines included.
func (r *Ranges) ofAll(ctx context.Context, n tenant.Name, wanted sets.Set[schema.GroupResource]) (ranges []*etcdRange, err error) {
	of := sets.New[schema.GroupResource]()
	for _, stored := range r.snapshot() {
		if wanted.Has(stored.resource) {
			ranges = append(ranges, stored)
			of.Insert(stored.resource)
		}
	}
	if of.Len() == wanted.Len() {
		return ranges, nil
	}
	defined, err := r.learnFrom(ctx, n) // a custom resource, whose range is the same for all spaces
	if err != nil {
		return nil, err
	}
	defined = slices.DeleteFunc(defined, func(stored *etcdRange) bool { return !wanted.Has(stored.resource) })
	return append(ranges, without(defined, ranges)...), nil
}
