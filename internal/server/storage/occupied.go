package storage

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// pageSize is how many keys are read from etcd at once, and smallPage how many
	// while their size is unknown.
	pageSize, smallPage = 500, 20
	// pageBytes is about how much is read at once.
	pageBytes = 4 << 20
	// maxRanges is how many ranges are counted in one transaction. etcd allows 128 by default.
	maxRanges = 100
)

// occupied is a range in which etcd has keys with the prefix of one tenant.
type occupied struct {
	stored *etcdRange
	client *clientv3.Client
	// key is the prefix of the tenant's keys, and from that of the requested keys, which
	// may be fewer.
	key, from string
	// keys is their number.
	keys int64
}

// occupied returns the ranges in which etcd has keys of tenant n.
func (r *Ranges) occupied(ctx context.Context, n tenant.Name) ([]occupied, error) {
	known := r.snapshot()
	found, err := r.count(ctx, n, "", known)
	if err != nil {
		return nil, err
	}
	// The definitions of the space may have custom resources that this server does not know yet.
	if !slices.ContainsFunc(found, func(o occupied) bool { return o.stored.resource == definitions }) {
		return found, nil
	}
	if err := r.learnFrom(ctx, n); err != nil {
		return nil, err
	}
	more, err := r.count(ctx, n, "", r.snapshot()[len(known):])
	return append(found, more...), err
}

// count returns those of the ranges in which etcd has keys of tenant n, in all
// namespaces or in the given one. Most are empty, so many are counted at once.
func (r *Ranges) count(ctx context.Context, n tenant.Name, namespace string, ranges []*etcdRange) ([]occupied, error) {
	if !n.IsSpace() {
		return nil, fmt.Errorf("counting keys of %q: it is not a tenant with a space of its own", n)
	}
	all := make([]occupied, len(ranges))
	for i, stored := range ranges {
		client, err := r.Client(stored.transport)
		if err != nil {
			return nil, fmt.Errorf("connecting to the etcd of %s: %w", stored.resource, err)
		}
		key := stored.prefix + string(n) + "/"
		all[i] = occupied{stored: stored, client: client, key: key, from: key}
		if namespace != "" {
			all[i].from += namespace + "/"
		}
	}
	for rest := all; len(rest) > 0; {
		batch := rest[:min(maxRanges, sameClient(rest))]
		rest = rest[len(batch):]
		answers, err := getAll(ctx, batch, func(occupied) clientv3.Op { return countOnly })
		if err != nil {
			return nil, fmt.Errorf("counting keys of tenant %q: %w", n, err)
		}
		for i := range batch {
			batch[i].keys = answers[i].Count
		}
	}
	return slices.DeleteFunc(all, func(o occupied) bool { return o.keys == 0 }), nil
}

// sameClient returns how many of the first ranges are in the same etcd.
func sameClient(ranges []occupied) int {
	if i := slices.IndexFunc(ranges, func(o occupied) bool { return o.client != ranges[0].client }); i > 0 {
		return i
	}
	return len(ranges)
}

// countOnly is shared: to make such an operation takes longer than to count an empty range.
var countOnly = clientv3.OpGet("", clientv3.WithCountOnly())

// getAll reads ranges of one etcd in one transaction, each with the operation that get
// returns.
func getAll(ctx context.Context, ranges []occupied, get func(occupied) clientv3.Op) ([]*clientv3.GetResponse, error) {
	gets := make([]clientv3.Op, len(ranges))
	for i, o := range ranges {
		gets[i] = get(o)
		gets[i].WithKeyBytes([]byte(o.from))
		gets[i].WithRangeBytes([]byte(clientv3.GetPrefixRangeEnd(o.from)))
	}
	response, err := ranges[0].client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return nil, err
	}
	answers := make([]*clientv3.GetResponse, len(ranges))
	for i, answer := range response.Responses {
		answers[i] = (*clientv3.GetResponse)(answer.GetResponseRange())
	}
	return answers, nil
}

// count returns how many of the keys belong to tenant n.
func (o occupied) count(ctx context.Context, n tenant.Name) (int64, error) {
	if !o.stored.namespaced && !o.stored.custom {
		return o.keys, nil
	}
	var options []clientv3.OpOption
	if !o.stored.custom {
		options = append(options, clientv3.WithKeysOnly())
	}
	var count int64
	err := readRange(ctx, o.client, o.from, func(full string, value []byte) {
		if o.stored.holds(ctx, o.key, full, value, n) {
			count++
		}
	}, options...)
	return count, err
}

// readAll visits everything in the ranges. Ranges with few keys are read in one transaction.
func readAll(ctx context.Context, ranges []occupied, visit func(o occupied, full string, value []byte)) error {
	for len(ranges) > 0 {
		batch := ranges[:readable(ranges)]
		ranges = ranges[len(batch):]
		answers, err := getAll(ctx, batch, func(o occupied) clientv3.Op {
			return clientv3.OpGet("", clientv3.WithLimit(min(o.keys, smallPage)))
		})
		if err != nil {
			return fmt.Errorf("reading keys below %q: %w", batch[0].from, err)
		}
		for i, o := range batch {
			each := func(full string, value []byte) { visit(o, full, value) }
			if err := readPages(ctx, o.client, o.from, answers[i], each); err != nil {
				return err
			}
		}
	}
	return nil
}

// readable returns how many of the first ranges may be read in one transaction:
// one, or several of one etcd that together have no more keys than a small page.
func readable(ranges []occupied) int {
	keys := int64(0)
	for i, o := range ranges[:sameClient(ranges)] {
		if keys += o.keys; keys > smallPage {
			return max(i, 1)
		}
	}
	return min(sameClient(ranges), maxRanges)
}

// readRange visits everything below key.
func readRange(ctx context.Context, client *clientv3.Client, key string, visit func(full string, value []byte), options ...clientv3.OpOption) error {
	first, err := client.Get(ctx, key, append(options, clientv3.WithPrefix(), clientv3.WithLimit(smallPage))...)
	if err != nil {
		return fmt.Errorf("reading keys below %q: %w", key, err)
	}
	return readPages(ctx, client, key, first, visit, options...)
}

// readPages visits the given first page of what is below key, and then the others.
func readPages(ctx context.Context, client *clientv3.Client, key string, page *clientv3.GetResponse, visit func(full string, value []byte),
	options ...clientv3.OpOption) error {
	end := clientv3.WithRange(clientv3.GetPrefixRangeEnd(key))
	for {
		size := 1
		for _, kv := range page.Kvs {
			size += len(kv.Value)
			visit(string(kv.Key), kv.Value)
		}
		if !page.More {
			return nil
		}
		from := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		limit := min(max(pageBytes*len(page.Kvs)/size, smallPage), pageSize)
		var err error
		if page, err = client.Get(ctx, from, append(options, end, clientv3.WithLimit(int64(limit)))...); err != nil {
			return fmt.Errorf("reading keys below %q: %w", key, err)
		}
	}
}
