package search

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// columns are what is read of custom resources, by the space and the resource of their definition. Every process has
// them, whether or not it writes the index. The zero value has none.
type columns struct {
	mu     sync.RWMutex
	spaces map[tenant.Name]map[schema.GroupResource]*properties.Columns
}

// of returns the columns of a resource in a space, nil if it has none.
func (c *columns) of(n tenant.Name, resource schema.GroupResource) *properties.Columns {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if own := c.spaces[n][resource]; own != nil {
		return own
	}
	return c.spaces[tenant.System][resource] // it is published
}

// define notes which columns the objects of a definition have, which is no object if it has gone. What is in the index
// has those that it had when it was written.
func (c *columns) define(of storage.ObjectKey, object runtime.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := schema.ParseGroupResource(of.Name)
	definition, ok := object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		keyed.Delete(c.spaces, of.Space, resource)
		return
	}
	if c.spaces == nil {
		c.spaces = map[tenant.Name]map[schema.GroupResource]*properties.Columns{}
	}
	keyed.Set(c.spaces, of.Space, resource, properties.NewColumns(definition))
}
