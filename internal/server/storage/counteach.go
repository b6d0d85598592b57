package storage

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/tenant"
)

// CountEach returns, for each of the resources, the number of objects that tenant n has in etcd, in all namespaces or in the
// given one. It asks etcd for a hundred of them at once, and then for what there is of those that have some.
func (r *Ranges) CountEach(ctx context.Context, n tenant.Name, resources []schema.GroupResource, namespace string) (map[schema.GroupResource]int64, error) {
	wanted := sets.New(resources...)
	known := func() (ranges []*etcdRange, all bool) {
		of := sets.New[schema.GroupResource]()
		for _, stored := range r.snapshot() {
			if wanted.Has(stored.resource) {
				ranges = append(ranges, stored)
				of.Insert(stored.resource)
			}
		}
		return ranges, of.Len() == wanted.Len()
	}
	ranges, all := known()
	if !all { // a custom resource, whose range is the same for all spaces
		if err := r.learnFrom(ctx, n); err != nil {
			return nil, err
		}
		ranges, _ = known()
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
