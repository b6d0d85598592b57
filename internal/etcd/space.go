package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/statedir"
)

// reclaimPeriod is how often a server that refuses writes tries to free space.
const reclaimPeriod = 5 * time.Second

// resumePercent is the part of the quota, in percent, below which writes are accepted
// again. With more in use, they would soon be refused again.
const resumePercent = 90

// reclaim makes etcd accept writes again when less than its quota is in use. etcd itself
// refuses all but deletions from the moment in which the quota was reached until an
// administrator has compacted, defragmented and disarmed an alarm, in this order. The
// embedded etcd has no address by default, so that no administrator can. The API server
// cannot compact either, because it records its progress, which is a write.
//
// It reports whether writes are accepted.
func (s *Server) reclaim(ctx context.Context) (bool, error) {
	if !s.outOfSpace() {
		return true, nil
	}
	client, backend := s.Client(), s.etcd.Server.Backend()
	// Watches and pages of lists that lag behind start anew.
	revision := s.etcd.Server.KV().Rev()
	if _, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return false, fmt.Errorf("compacting: %w", err)
	}
	backend.ForceCommit()
	limit := s.quota / 100 * resumePercent
	if s.quota < 0 { // no quota any more
		limit = math.MaxInt64
	}
	if backend.SizeInUse() >= limit {
		return false, nil
	}
	if backend.Size() >= limit {
		if err := backend.Defrag(); err != nil {
			return false, fmt.Errorf("defragmenting: %w", err)
		}
	}
	alarm := &clientv3.AlarmMember{MemberID: uint64(s.etcd.Server.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE}
	if _, err := client.AlarmDisarm(ctx, alarm); err != nil {
		return false, fmt.Errorf("disarming the alarm: %w", err)
	}
	return true, nil
}

func (s *Server) outOfSpace() bool {
	return slices.ContainsFunc(s.etcd.Server.Alarms(), func(alarm *etcdserverpb.AlarmMember) bool {
		return alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
	})
}

// keepSpace reclaims until ctx ends, and logs when writes are refused and accepted again.
func (s *Server) keepSpace(ctx context.Context) {
	refused := false
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		accepted, err := s.reclaim(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			klog.ErrorS(err, "Making etcd take writes again failed; trying again")
		case !accepted && !refused:
			klog.ErrorS(nil, "etcd has reached its space quota and takes no writes but deletions. Delete objects, or start again with a larger --etcd-quota-backend-bytes",
				"quota", s.quota, "inUse", s.etcd.Server.Backend().SizeInUse())
		case accepted && refused:
			klog.InfoS("etcd takes writes again")
		}
		refused = !accepted
	}, reclaimPeriod)
}

// failure adds the directory to an error of etcd.
func failure(dir string, err error) error {
	if statedir.IsFull(err) {
		return statedir.Explain(dir, err)
	}
	return fmt.Errorf("etcd in %s: %w", dir, err)
}
