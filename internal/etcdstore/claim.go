package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// claimKey is where, below a prefix, is written whose objects are there. No resource has that
// path.
const claimKey = "tenantry.io/claim"

// ErrClaimed is that of a prefix that is not the claimant's.
var ErrClaimed = errors.New("the prefix of etcd is not this control plane's")

// Claim makes a prefix of an etcd that of a claimant, or returns an ErrClaimed and writes
// nothing: if it is another one's already, if one above is, or if there are keys below it that
// nobody has claimed, which may be another control plane's at a longer prefix, or not
// Tenantry's at all. Of several that claim at once, one succeeds.
func Claim(ctx context.Context, client *clientv3.Client, prefix, claimant string) error {
	prefix = path.Join("/", prefix)
	err := claim(ctx, client, prefix, claimant, above(prefix))
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		// etcd keeps this client within its prefix. Whoever it lets in above is not known.
		err = claim(ctx, client, prefix, claimant, nil)
	}
	if err != nil && !errors.Is(err, ErrClaimed) {
		return fmt.Errorf("claiming the prefix %s of etcd: %w", prefix, err)
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

// above returns the prefixes in which another one is.
func above(prefix string) []string {
	var all []string
	for prefix != "/" {
		prefix = path.Dir(prefix)
		all = append(all, prefix)
	}
	return all
}
