package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/klog/v2"
)

const (
	// historyPeriod is how often the size of etcd is looked at. What is younger is kept.
	historyPeriod = 10 * time.Second
	// historyDivisor is the part of etcd's space quota by which it may grow between two compactions.
	historyDivisor = 8
	// defaultQuota is etcd's own. Members before etcd 3.6 do not tell theirs.
	defaultQuota = 2 << 30
)

// BoundHistory compacts etcd before its time when it has grown by an eighth of its space quota, until ctx
// ends. Upstream's compactor goes by time alone and keeps up to ten minutes: a tenant that overwrites one
// large object again and again would fill etcd with what the object was, whatever its own quota.
func BoundHistory(ctx context.Context, client *clientv3.Client) {
	h := history{client: client}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := h.bound(ctx); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Looking whether etcd is to be compacted failed; trying again", "endpoints", client.Endpoints())
		}
	}, historyPeriod)
}

// history is what is known of the past that etcd keeps.
type history struct {
	client *clientv3.Client
	// compacted is the least size in use since the last compaction, and revision the newest when the size
	// was looked at last. Zero is unknown.
	compacted, revision int64
}

// bound compacts up to the revision of the call before, if etcd has grown too much.
func (h *history) bound(ctx context.Context) error {
	status, err := h.status(ctx)
	if err != nil {
		return err
	}
	before := h.revision
	h.revision = status.Header.Revision
	if h.compacted == 0 || status.DbSizeInUse < h.compacted {
		h.compacted = status.DbSizeInUse
	}
	if before == 0 || status.DbSizeInUse-h.compacted <= allowedGrowth(status.DbSizeQuota) {
		return nil
	}
	if err := compact(ctx, h.client, before); err != nil {
		return err
	}
	// etcd removes what is compacted in the background, so the size is still falling next time.
	h.compacted = status.DbSizeInUse
	return nil
}

// status asks one member after the other.
func (h *history) status(ctx context.Context) (status *clientv3.StatusResponse, err error) {
	endpoints := h.client.Endpoints()
	if len(endpoints) == 0 {
		endpoints = []string{""} // the embedded etcd
	}
	for _, endpoint := range endpoints {
		attempt, cancel := context.WithTimeout(ctx, historyPeriod)
		status, err = h.client.Status(attempt, endpoint)
		cancel()
		if err == nil {
			return status, nil
		}
	}
	return nil, err
}

func allowedGrowth(quota int64) int64 {
	if quota < 0 {
		quota = 0 // none: as much as with the default
	}
	return cmp.Or(quota, defaultQuota) / historyDivisor
}

// compact compacts as upstream's compactors do, which learn of it by the key that they write.
func compact(ctx context.Context, client *clientv3.Client, revision int64) error {
	version, _, compacted, err := etcd3.Compact(ctx, client, 0, revision)
	if err == nil && compacted < revision { // the key has another version, which is known now
		_, _, _, err = etcd3.Compact(ctx, client, version, revision)
	}
	if errors.Is(err, rpctypes.ErrCompacted) {
		return nil // by another server
	}
	return err
}
