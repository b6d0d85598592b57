package storage

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// CheckDefinitionChange returns an error if a space may not change a definition of its own because of the objects that
// there are; see that of cachememory.Budget.
func (g *RESTOptionsGetter) CheckDefinitionChange(ctx context.Context, n tenant.Name, resource schema.GroupResource, change cachememory.DefinitionChange) error {
	return g.CacheMemory.CheckDefinitionChange(tenant.CacheID{Resource: resource.String(), Of: n.Scope()}, change, func(most int64) (objects int, bytes int64, err error) {
		return g.Ranges.memoryOf(ctx, n, resource, most)
	})
}

// memoryOf returns how many custom resources of a definition a space has, and what they take in a cache without
// conversion. It decodes no more once that is most.
func (r *Ranges) memoryOf(ctx context.Context, n tenant.Name, resource schema.GroupResource, most int64) (objects int, bytes int64, err error) {
	ranges, err := r.ofAll(ctx, n, sets.New(resource))
	if err != nil {
		return 0, 0, err
	}
	found, err := r.count(ctx, n, "", ranges)
	if err != nil {
		return 0, 0, err
	}
	err = readAll(ctx, found, func(o occupied, full string, data []byte) {
		if bytes > most || !o.stored.holds(ctx, o.key, full, data, n) {
			return
		}
		object := map[string]any{}
		if err := json.Unmarshal(o.stored.plain(ctx, full, data), &object); err == nil { // otherwise no cache reads it either
			objects, bytes = objects+1, bytes+int64(memory.Of(object))
		}
	})
	return objects, bytes, err
}
