package etcdstore

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
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

// fenced adds the fence of a context to its transactions.
type fenced struct{ clientv3.KV }

// Txn implements clientv3.KV.
func (k fenced) Txn(ctx context.Context) clientv3.Txn {
	txn := k.KV.Txn(ctx)
	if f, ok := ctx.Value(fenceKey{}).(Fence); ok {
		return &fencedTxn{txn: txn, fence: f}
	}
	return txn
}

// fencedTxn is a transaction that fails with the fence's error if its key exists.
type fencedTxn struct {
	txn     clientv3.Txn
	fence   Fence
	key     string
	elseOps []clientv3.Op
}

// If implements clientv3.Txn.
func (t *fencedTxn) If(compares ...clientv3.Cmp) clientv3.Txn {
	if slices.ContainsFunc(compares, creates) {
		t.key = t.fence.Closed()
	} else {
		t.key = t.fence.Ended()
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
	t.txn = t.txn.Then(ops...)
	return t
}

// Else implements clientv3.Txn.
func (t *fencedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.elseOps = ops
	return t
}

// Commit implements clientv3.Txn. The last of the reads in the Else branch is that of the
// fence's key.
func (t *fencedTxn) Commit() (*clientv3.TxnResponse, error) {
	response, err := t.txn.Else(append(t.elseOps, clientv3.OpGet(t.key, clientv3.WithCountOnly()))...).Commit()
	if err != nil || response.Succeeded {
		return response, err
	}
	last := len(response.Responses) - 1
	if response.Responses[last].GetResponseRange().GetCount() > 0 {
		return nil, t.fence.Refused()
	}
	response.Responses = response.Responses[:last]
	return response, nil
}
