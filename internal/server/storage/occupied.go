package storage

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
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

// occupied returns those of the known ranges in which etcd has keys of tenant n, and those of the custom resources that
// the space defines, which this server may not know yet.
func (r *Ranges) occupied(ctx context.Context, n tenant.Name, known []*etcdRange) ([]occupied, error) {
	found, err := r.count(ctx, n, "", known)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(found, func(o occupied) bool { return o.stored.resource == definitions }) {
		return found, nil
	}
	defined, err := r.learnFrom(ctx, n)
	if err != nil {
		return nil, err
	}
	more, err := r.count(ctx, n, "", without(defined, known))
	return append(found, more...), err
}

// without returns the ranges that are not among the known ones.
func without(ranges, known []*etcdRange) []*etcdRange {
	prefixes := make(map[string]struct{}, len(known)+len(ranges))
	for _, stored := range known {
		prefixes[stored.prefix] = struct{}{}
	}
	var more []*etcdRange
	for _, stored := range ranges {
		if _, ok := prefixes[stored.prefix]; !ok {
			prefixes[stored.prefix] = struct{}{}
			more = append(more, stored)
		}
	}
	return more
}

// count returns those of the ranges in which etcd has keys of tenant n, in all
// namespaces or in the given one. Most are empty, so many are counted at once.
func (r *Ranges) count(ctx context.Context, n tenant.Name, namespace string, ranges []*etcdRange) ([]occupied, error) {
	if !n.IsSpace() {
		return nil, fmt.Errorf("counting keys of %q: it is not a tenant with a space of its own", n)
	}
	all, err := r.below(ranges, string(n)+"/")
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		for i := range all {
			all[i].from += namespace + "/"
		}
	}
	if err := ask(ctx, all, countOnly, func(o *occupied, answer *clientv3.GetResponse) { o.keys = answer.Count }); err != nil {
		return nil, fmt.Errorf("counting keys of tenant %q: %w", n, err)
	}
	return slices.DeleteFunc(all, func(o occupied) bool { return o.keys == 0 }), nil
}

// below returns what is below a key of each of the ranges, without the number of keys.
func (r *Ranges) below(ranges []*etcdRange, key string) ([]occupied, error) {
	all := make([]occupied, len(ranges))
	for i, stored := range ranges {
		client, err := r.Client(stored.transport)
		if err != nil {
			return nil, fmt.Errorf("connecting to the etcd of %s: %w", stored.resource, err)
		}
		all[i] = occupied{stored: stored, client: client, key: stored.prefix + key, from: stored.prefix + key}
	}
	return all, nil
}

// ask reads many ranges by one operation, some of them in each transaction.
func ask(ctx context.Context, all []occupied, op clientv3.Op, visit func(*occupied, *clientv3.GetResponse)) error {
	for rest := all; len(rest) > 0; {
		batch := rest[:min(maxRanges, sameClient(rest))]
		rest = rest[len(batch):]
		answers, err := getAll(ctx, batch, func(occupied) clientv3.Op { return op })
		if err != nil {
			return err
		}
		for i, answer := range answers {
			visit(&batch[i], answer)
		}
	}
	return nil
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

// count returns how many of the keys belong to tenant n. It reads keys alone, and values only where keys do not tell.
func (o occupied) count(ctx context.Context, n tenant.Name) (count int64, err error) {
	_, err = o.pages(ctx, n, func(found int64) bool {
		count += found
		return true
	})
	return count, err
}

// atMost is count without reading on behind the page with the first key of tenant n: more of what lies behind it may be
// the system namespace's with the name of the tenant. It is zero only if tenant n has none.
func (o occupied) atMost(ctx context.Context, n tenant.Name) (count int64, err error) {
	read, err := o.pages(ctx, n, func(found int64) bool {
		count = found
		return found == 0
	})
	if err == nil && count > 0 {
		count += max(o.keys-read, 0)
	}
	return count, err
}

// pages calls visit with how many keys of each page belong to tenant n until it returns false. It returns how many keys
// were read.
func (o occupied) pages(ctx context.Context, n tenant.Name, visit func(found int64) bool) (read int64, err error) {
	if !o.stored.namespaced && !o.stored.custom {
		visit(o.keys)
		return o.keys, nil
	}
	for page, err := range pagesOf(ctx, o.client, o.from, nil, clientv3.WithKeysOnly()) {
		if err != nil {
			return read, err
		}
		found, err := o.ofTenant(ctx, n, page.Kvs)
		if err != nil {
			return read, err
		}
		read += int64(len(page.Kvs))
		if !visit(found) {
			break
		}
	}
	return read, nil
}

// ofTenant returns how many of the keys, which follow each other, belong to tenant n.
func (o occupied) ofTenant(ctx context.Context, n tenant.Name, keys []*mvccpb.KeyValue) (count int64, err error) {
	var unclear []string
	for _, kv := range keys {
		switch key := string(kv.Key); {
		case isNested(o.key, key):
			count++
		case o.stored.custom:
			unclear = append(unclear, key)
		}
	}
	if len(unclear) == 0 {
		return count, nil
	}
	for page, err := range pagesFrom(ctx, o.client, unclear[0], unclear[len(unclear)-1]+"\x00", nil) {
		if err != nil {
			return 0, err
		}
		for _, kv := range page.Kvs {
			if key := string(kv.Key); !isNested(o.key, key) && o.stored.holds(ctx, o.key, key, kv.Value, n) {
				count++
			}
		}
	}
	return count, nil
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
	return readPages(ctx, client, key, nil, visit, options...)
}

// readPages visits everything below key, of which the first page may have been read.
func readPages(ctx context.Context, client *clientv3.Client, key string, first *clientv3.GetResponse, visit func(full string, value []byte),
	options ...clientv3.OpOption) error {
	for page, err := range pagesOf(ctx, client, key, first, options...) {
		if err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			visit(string(kv.Key), kv.Value)
		}
	}
	return nil
}

// pagesOf reads what is below key.
func pagesOf(ctx context.Context, client *clientv3.Client, key string, first *clientv3.GetResponse, options ...clientv3.OpOption) iter.Seq2[*clientv3.GetResponse, error] {
	return pagesFrom(ctx, client, key, clientv3.GetPrefixRangeEnd(key), first, options...)
}

// pagesFrom reads keys from one up to another in pages of bounded size, one after the other as they are asked for. The
// first may have been read.
func pagesFrom(ctx context.Context, client *clientv3.Client, from, to string, page *clientv3.GetResponse, options ...clientv3.OpOption) iter.Seq2[*clientv3.GetResponse, error] {
	return func(yield func(*clientv3.GetResponse, error) bool) {
		next, limit := from, smallPage
		for {
			if page == nil {
				var err error
				if page, err = client.Get(ctx, next, append(options, clientv3.WithRange(to), clientv3.WithLimit(int64(limit)))...); err != nil {
					yield(nil, fmt.Errorf("reading keys from %q: %w", from, err))
					return
				}
			}
			if !yield(page, nil) || !page.More {
				return
			}
			size := 1
			for _, kv := range page.Kvs {
				size += len(kv.Value)
			}
			next = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
			limit = min(max(pageBytes*len(page.Kvs)/size, smallPage), pageSize)
			page = nil
		}
	}
}
