package storage

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/sets"
)

// fewRanges is how many ranges of custom resources are kept at least. To count in so many empty ones takes two
// transactions.
const fewRanges = 2 * maxRanges

// tidy forgets the ranges of custom resources in which etcd has nothing and of which the system space has no
// definition, when twice as many are known as last time were of use. Each is counted for every tenant, and a tenant
// defines and deletes as many as it likes. Those that a space defines are learned anew when it is counted.
func (r *Ranges) tidy(ctx context.Context) error {
	var unused sets.Set[string]
	candidates := r.beginTidying()
	if len(candidates) == 0 {
		return nil
	}
	defer func() { r.endTidying(unused) }()
	empty, err := r.empty(ctx, candidates)
	if err != nil {
		return err
	}
	unused, err = r.undefined(ctx, empty)
	return err
}

// beginTidying returns the ranges that may be forgotten, none if they are few or somebody else looks.
func (r *Ranges) beginTidying() []*etcdRange {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.touched != nil {
		return nil
	}
	custom := slices.DeleteFunc(slices.Clone(r.known), func(stored *etcdRange) bool { return !stored.custom })
	if len(custom) <= max(fewRanges, 2*r.tidied) {
		return nil
	}
	r.touched = sets.New[string]()
	return custom
}

// endTidying forgets ranges, but those that were learned meanwhile.
func (r *Ranges) endTidying(unused sets.Set[string]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = slices.DeleteFunc(slices.Clone(r.known), func(stored *etcdRange) bool {
		return unused.Has(stored.prefix) && !r.touched.Has(stored.prefix)
	})
	r.touched, r.tidied = nil, 0
	clear(r.at)
	for i, stored := range r.known {
		r.at[stored.prefix] = i
		if stored.custom {
			r.tidied++
		}
	}
}

// empty returns those of the ranges in which etcd has no keys of any space.
func (r *Ranges) empty(ctx context.Context, ranges []*etcdRange) (empty []*etcdRange, err error) {
	all, err := r.below(ranges, "")
	if err != nil {
		return nil, err
	}
	err = ask(ctx, all, clientv3.OpGet("", clientv3.WithKeysOnly(), clientv3.WithLimit(1)), func(o *occupied, answer *clientv3.GetResponse) {
		if len(answer.Kvs) == 0 {
			empty = append(empty, o.stored)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("looking for custom resources: %w", err)
	}
	return empty, nil
}

// undefined returns the prefixes of those of the ranges whose resources the system space does not define. What it
// publishes is in other spaces, too.
func (r *Ranges) undefined(ctx context.Context, ranges []*etcdRange) (sets.Set[string], error) {
	undefined := sets.New[string]()
	if len(r.of(definitions)) == 0 {
		return undefined, nil // nobody can say
	}
	for _, stored := range ranges {
		undefined.Insert(stored.prefix)
	}
	for _, of := range r.of(definitions) {
		client, err := r.Client(of.transport)
		if err != nil {
			return nil, fmt.Errorf("connecting to the etcd of %s: %w", of.resource, err)
		}
		for batch := range slices.Chunk(ranges, maxRanges) {
			reads := make([]clientv3.Op, len(batch))
			for i, stored := range batch {
				reads[i] = clientv3.OpGet(of.prefix+stored.resource.String(), clientv3.WithCountOnly())
			}
			response, err := client.Txn(ctx).Then(reads...).Commit()
			if err != nil {
				return nil, fmt.Errorf("looking for definitions: %w", err)
			}
			for i, answer := range response.Responses {
				if answer.GetResponseRange().Count > 0 {
					undefined.Delete(batch[i].prefix)
				}
			}
		}
	}
	return undefined, nil
}
