package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// learnFrom adds the ranges of the custom resources that the space of n defines, and returns them. Upstream makes
// their storage at the first request to a server, and objects that were stored by
// another server, or before a restart, count as well.
func (r *Ranges) learnFrom(ctx context.Context, n tenant.Name) (learned []*etcdRange, err error) {
	if !n.IsSpace() {
		return nil, nil
	}
	for _, stored := range r.of(definitions) {
		client, err := r.Client(stored.transport)
		if err != nil {
			return nil, fmt.Errorf("connecting to the etcd of %s: %w", stored.resource, err)
		}
		var defined []schema.GroupResource
		below := stored.prefix + string(n) + "/"
		if err := readRange(ctx, client, below, func(full string, _ []byte) {
			defined = append(defined, schema.ParseGroupResource(full[len(below):])) // the name of the definition
		}, clientv3.WithKeysOnly()); err != nil {
			return nil, err
		}
		for _, resource := range defined {
			one, err := r.learn(resource)
			if err != nil {
				return nil, fmt.Errorf("finding where %s is stored: %w", resource, err)
			}
			learned = append(learned, one)
		}
	}
	return learned, nil
}

// Learn adds the range of the custom resources of a definition for all spaces.
func (r *Ranges) Learn(resource schema.GroupResource) error {
	_, err := r.learn(resource)
	return err
}

func (r *Ranges) learn(resource schema.GroupResource) (*etcdRange, error) {
	options, err := r.Custom.GetRESTOptions(resource, &unstructured.Unstructured{})
	if err != nil {
		return nil, err
	}
	config, prefix := options.StorageConfig, "/"+options.ResourcePrefix+"/"
	if known := r.get(config.Prefix, prefix); known != nil {
		return known, nil
	}
	return r.add(config.Prefix, prefix, etcdRange{resource: resource, custom: true, transformer: config.Transformer, transport: config.Transport}), nil
}

// learnStored adds the ranges of custom resources that etcd has keys of and that are not among the known ones, and
// returns them: their definitions may have gone, or be in spaces that nobody has asked
// for since this server started. It reads what lies between the ranges that are known.
func (r *Ranges) learnStored(ctx context.Context, known []*etcdRange) (learned []*etcdRange, err error) {
	options, err := r.Custom.GetRESTOptions(definitions, &unstructured.Unstructured{})
	if err != nil {
		return nil, err
	}
	client, err := r.Client(options.StorageConfig.Transport)
	if err != nil {
		return nil, fmt.Errorf("connecting to the etcd of custom resources: %w", err)
	}
	root := fullPrefix(options.StorageConfig.Prefix, "/")
	for gaps := gapsIn(root, known); len(gaps) > 0; {
		batch := gaps[:min(maxRanges, len(gaps))]
		gaps = gaps[len(batch):]
		reads := make([]clientv3.Op, len(batch))
		for i, g := range batch {
			reads[i] = clientv3.OpGet(g.from, clientv3.WithRange(g.to), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
		}
		response, err := client.Txn(ctx).Then(reads...).Commit()
		if err != nil {
			return nil, fmt.Errorf("looking for custom resources: %w", err)
		}
		for i, answer := range response.Responses {
			for _, kv := range answer.GetResponseRange().Kvs {
				one, after, err := r.learnKey(root, string(kv.Key))
				if err != nil {
					return nil, err
				}
				if one != nil {
					learned = append(learned, one)
				}
				if after < batch[i].to { // there may be more behind it
					gaps = append(gaps, gap{after, batch[i].to})
				}
			}
		}
	}
	return learned, nil
}

// gap is a part of etcd in which there is no range that is known.
type gap struct{ from, to string }

// gapsIn returns those below root, in order.
func gapsIn(root string, known []*etcdRange) []gap {
	var prefixes []string
	for _, stored := range known {
		if strings.HasPrefix(stored.prefix, root) {
			prefixes = append(prefixes, stored.prefix)
		}
	}
	slices.Sort(prefixes)
	gaps, from := make([]gap, 0, len(prefixes)+1), root
	for _, prefix := range prefixes {
		gaps = append(gaps, gap{from, prefix})
		from = max(from, clientv3.GetPrefixRangeEnd(prefix))
	}
	gaps = append(gaps, gap{from, clientv3.GetPrefixRangeEnd(root)})
	return slices.DeleteFunc(gaps, func(g gap) bool { return g.from >= g.to })
}

// learnKey adds the range of the custom resource at a key below root, if it is one, and returns it and where
// the next range may begin. Groups of definitions have a dot, and are none that is built in.
func (r *Ranges) learnKey(root, key string) (learned *etcdRange, next string, err error) {
	segments := strings.SplitAfterN(key[len(root):], "/", 3)
	group := strings.TrimSuffix(segments[0], "/")
	switch {
	case len(segments) < 2:
		return nil, key + "\x00", nil
	case !strings.Contains(group, "."):
		return nil, clientv3.GetPrefixRangeEnd(root + segments[0]), nil
	case len(segments) < 3:
		return nil, key + "\x00", nil
	case !r.IsBuiltIn(group):
		learned, err = r.learn(schema.GroupResource{Group: group, Resource: strings.TrimSuffix(segments[1], "/")})
	}
	return learned, clientv3.GetPrefixRangeEnd(root + segments[0] + segments[1]), err
}

// IsBuiltIn reports whether a group has resources without a definition.
func (r *Ranges) IsBuiltIn(group string) bool {
	return slices.ContainsFunc(r.snapshot(), func(stored *etcdRange) bool { return !stored.custom && stored.resource.Group == group })
}
