package storage

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// learnFrom adds the ranges of the custom resources that the space of n defines. Upstream makes
// their storage at the first request to a server, and objects that were stored by
// another server, or before a restart, count as well.
func (r *Ranges) learnFrom(ctx context.Context, n tenant.Name) error {
	if !n.IsSpace() {
		return nil
	}
	for _, stored := range r.of(definitions) {
		client, err := r.Client(stored.transport)
		if err != nil {
			return fmt.Errorf("connecting to the etcd of %s: %w", stored.resource, err)
		}
		var defined []schema.GroupResource
		below := stored.prefix + string(n) + "/"
		if err := readRange(ctx, client, below, func(full string, _ []byte) {
			defined = append(defined, schema.ParseGroupResource(full[len(below):])) // the name of the definition
		}, clientv3.WithKeysOnly()); err != nil {
			return err
		}
		for _, resource := range defined {
			if err := r.Learn(resource); err != nil {
				return fmt.Errorf("finding where %s is stored: %w", resource, err)
			}
		}
	}
	return nil
}

// Learn adds the range of the custom resources of a definition for all spaces.
func (r *Ranges) Learn(resource schema.GroupResource) error {
	options, err := r.Custom.GetRESTOptions(resource, &unstructured.Unstructured{})
	if err != nil {
		return err
	}
	config, prefix := options.StorageConfig, "/"+options.ResourcePrefix+"/"
	if !r.has(config.Prefix, prefix) {
		r.add(config.Prefix, prefix, etcdRange{resource: resource, custom: true, transformer: config.Transformer, transport: config.Transport})
	}
	return nil
}
