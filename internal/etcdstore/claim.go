package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
)

// claimKey is where, below a prefix, is written whose objects are there. No resource has that
// path.
const claimKey = "tenantry.io/claim"

// claimRetry is how long an etcd that has not answered is left alone.
const claimRetry = time.Second

// ErrClaimed is that of a prefix that is not the claimant's.
var ErrClaimed = errors.New("the prefix of etcd is not this control plane's")

// Claim makes a prefix of an etcd that of a claimant, or returns an ErrClaimed and writes
// nothing: if it is another one's already, if one above is, or if there are keys below it that
// nobody has claimed, which may be another control plane's at a longer prefix, or not
// Tenantry's at all. Of several that claim at once, one succeeds. An etcd that does not answer
// is asked until ctx ends.
func Claim(ctx context.Context, client *clientv3.Client, prefix, claimant string) error {
	prefix = path.Join("/", prefix)
	var last error
	err := wait.PollUntilContextCancel(ctx, claimRetry, true, func(ctx context.Context) (bool, error) {
		err := claimAsFarAsKnown(ctx, client, prefix, claimant)
		if errors.Is(err, ErrClaimed) || errors.Is(err, rpctypes.ErrPermissionDenied) {
			return false, err
		}
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	switch {
	case err == nil, errors.Is(err, ErrClaimed):
		return err
	case ctx.Err() != nil: // which says less than why nobody has answered
		err = cmp.Or(last, silence(client), err)
	}
	return fmt.Errorf("claiming the prefix %s of etcd: %w", prefix, err)
}

// silence returns why an etcd does not answer, if it is known. The client itself says that the
// time is over.
func silence(client *clientv3.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), claimRetry)
	defer cancel()
	_, err := etcdserverpb.NewKVClient(client.ActiveConnection()).Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("/")})
	if code := status.Code(err); code != codes.DeadlineExceeded && code != codes.Unavailable {
		return nil
	}
	return errors.New(status.Convert(err).Message())
}

// claimAsFarAsKnown claims a prefix. Where etcd does not let this client read, further up,
// nobody can be found.
func claimAsFarAsKnown(ctx context.Context, client *clientv3.Client, prefix, claimant string) error {
	known := above(prefix)
	err := claim(ctx, client, prefix, claimant, known)
	for errors.Is(err, rpctypes.ErrPermissionDenied) && len(known) > 0 {
		known = known[:len(known)-1]
		err = claim(ctx, client, prefix, claimant, known)
	}
	return err
}

func claim(ctx context.Context, client *clientv3.Client, prefix, claimant string, above []string) error {
	own := keyOf(prefix)
	free := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(strings.TrimSuffix(prefix, "/")+"/"), "=", 0).WithPrefix()}
	read := []clientv3.Op{clientv3.OpGet(own)}
	for _, prefix := range above {
		free = append(free, clientv3.Compare(clientv3.CreateRevision(keyOf(prefix)), "=", 0))
		read = append(read, clientv3.OpGet(keyOf(prefix)))
	}
	done, err := client.Txn(ctx).If(free...).Then(clientv3.OpPut(own, claimant)).Else(read...).Commit()
	if err != nil || done.Succeeded {
		return err
	}
	for i, response := range done.Responses {
		for _, found := range response.GetResponseRange().GetKvs() {
			switch {
			case i == 0 && string(found.Value) == claimant:
				return nil
			case i == 0:
				return fmt.Errorf("%w: %s is that of control plane %q (key %s), and this is %q: choose another prefix or, "+
					"if that one is gone for ever, put this one's name there", ErrClaimed, prefix, found.Value, found.Key, claimant)
			default:
				return fmt.Errorf("%w: %s is below that of control plane %q (key %s): choose another prefix", ErrClaimed, prefix, found.Value, found.Key)
			}
		}
	}
	return fmt.Errorf("%w: there are keys below %s, and nobody has claimed them: choose another prefix or, "+
		"if they are of this control plane, put %q at the key %s", ErrClaimed, prefix, claimant, own)
}

func keyOf(prefix string) string { return path.Join(prefix, claimKey) }

// above returns the prefixes in which another one is, the nearest first.
func above(prefix string) []string {
	var all []string
	for prefix != "/" {
		prefix = path.Dir(prefix)
		all = append(all, prefix)
	}
	return all
}
