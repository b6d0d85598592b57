package etcdstore

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Fence keeps transactions out of a space that has ended, by keys that are written when it
// ends. etcd compares them in the transaction itself, so that it refuses the
// transaction of a server that has stalled since it admitted the request, for however
// long. Each transaction compares one key.
type Fence interface {
	// Closed returns the key that prevents a new object from being stored.
	Closed() string
	// Ended returns the key that prevents any object from being changed.
	Ended() string
	// Refused returns the error of a transaction that the fence prevented.
	Refused() error
}

type fenceKey struct{}

// WithFence returns a context whose transactions, in a store of this package, succeed only
// while the keys of f do not exist.
func WithFence(ctx context.Context, f Fence) context.Context {
	return context.WithValue(ctx, fenceKey{}, f)
}

// Unchanged keeps objects from being created when a key is another one than it was, such as that of
// their definition.
type Unchanged struct {
	Key string
	// Revision is the one in which the key was last written.
	Revision int64
	// Refused is the error of a transaction that was prevented.
	Refused error
}

type unchangedKey struct{}

// WithUnchanged returns a context whose transactions, if they have a fence, create objects only while a key is
// unchanged.
func WithUnchanged(ctx context.Context, u Unchanged) context.Context {
	return context.WithValue(ctx, unchangedKey{}, u)
}

// maxValue is less than etcd takes by default (1.5 MiB), so that what is at the limit can still be marked as
// deleted, and be changed by who cleans up.
const maxValue = 1536<<10 - 64<<10

type reserveKey struct{}

// WithReserve returns a context whose transactions may write objects up to etcd's own limit.
func WithReserve(ctx context.Context) context.Context {
	return context.WithValue(ctx, reserveKey{}, true)
}

// fenced adds the fence of a context to its transactions.
type fenced struct{ clientv3.KV }

// Txn implements clientv3.KV.
func (k fenced) Txn(ctx context.Context) clientv3.Txn {
	txn := k.KV.Txn(ctx)
	if f, ok := ctx.Value(fenceKey{}).(Fence); ok {
		reserve, _ := ctx.Value(reserveKey{}).(bool)
		unchanged, _ := ctx.Value(unchangedKey{}).(Unchanged)
		return &fencedTxn{txn: txn, fence: f, reserve: reserve, unchanged: unchanged}
	}
	return txn
}

// fencedTxn is a transaction that fails with the fence's error if its key exists, and if it writes a value that is too
// large.
type fencedTxn struct {
	txn     clientv3.Txn
	fence   Fence
	key     string
	elseOps []clientv3.Op
	reserve bool
	// unchanged is what a creation compares, too, without a key if there is nothing.
	unchanged Unchanged
	// tooLarge is the size of a value that is, or zero.
	tooLarge int
}

// If implements clientv3.Txn.
func (t *fencedTxn) If(compares ...clientv3.Cmp) clientv3.Txn {
	if slices.ContainsFunc(compares, creates) {
		t.key = t.fence.Closed()
	} else {
		t.key, t.unchanged = t.fence.Ended(), Unchanged{}
	}
	if t.unchanged.Key != "" {
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(t.unchanged.Key), "=", t.unchanged.Revision))
	}
	t.txn = t.txn.If(append(compares, clientv3.Compare(clientv3.CreateRevision(t.key), "=", 0))...)
	return t
}

// creates reports whether a transaction expects that there is no object yet.
func creates(c clientv3.Cmp) bool {
	expected, ok := c.GetCompare().GetTargetUnion().(*compareMod)
	return ok && expected.ModRevision == 0
}

// Then implements clientv3.Txn.
func (t *fencedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		if size := len(op.ValueBytes()); size > maxValue && !t.reserve {
			t.tooLarge = size
		}
	}
	t.txn = t.txn.Then(ops...)
	return t
}

// Else implements clientv3.Txn.
func (t *fencedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.elseOps = ops
	return t
}

// Commit implements clientv3.Txn. The last of the reads in the Else branch are those of the
// fence's key and of the one that is to be unchanged.
func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.tooLarge > 0 {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the object has %d bytes as it is stored, and at most %d are allowed; make several objects of it", t.tooLarge, maxValue))
	}
	reads := append(t.elseOps, clientv3.OpGet(t.key, clientv3.WithCountOnly()))
	if t.unchanged.Key != "" {
		reads = append(reads, clientv3.OpGet(t.unchanged.Key, clientv3.WithKeysOnly()))
	}
	response, err := t.txn.Else(reads...).Commit()
	if err != nil || response.Succeeded {
		return response, err
	}
	own := response.Responses[len(t.elseOps):]
	response.Responses = response.Responses[:len(t.elseOps)]
	switch {
	case own[0].GetResponseRange().GetCount() > 0:
		return nil, t.fence.Refused()
	case len(own) > 1 && !t.unchanged.is(own[1].GetResponseRange().GetKvs()):
		return nil, t.unchanged.Refused
	default:
		return response, nil
	}
}

// is reports whether a key is unchanged that was read.
func (u Unchanged) is(read []*mvccpb.KeyValue) bool {
	return len(read) == 1 && read[0].ModRevision == u.Revision
}
