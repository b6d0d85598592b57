package crd

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Definitions knows which definitions spaces have, and the servers that run for them: none
// before Servers run. Admission asks it, which is there before what Servers are made with.
type Definitions struct {
	index *index

	mu      sync.RWMutex
	servers map[tenant.Name]*server
}

// NewDefinitions returns Definitions that know of none.
func NewDefinitions() *Definitions {
	return &Definitions{index: newIndex(), servers: make(map[tenant.Name]*server)}
}

// server is a running extension server.
type server struct {
	definitions listers.CustomResourceDefinitionLister
	handler     http.Handler
	groups      http.Handler
	// hasSynced reports whether it serves all definitions that there were when it was started.
	hasSynced func() bool
	stop      context.CancelFunc
}

// Definition returns the definition by which a custom resource in the space of n is served.
func (d *Definitions) Definition(n tenant.Name, resource schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
	name := resource.String()
	if !d.index.defines(n, name) {
		n = tenant.System
	}
	running := d.running(n)
	if running == nil {
		return nil, fmt.Errorf("the definition %q is not served yet; try again", name)
	}
	definition, err := running.definitions.Get(name)
	if err != nil {
		return nil, fmt.Errorf("finding the definition by which the object is validated: %w", err)
	}
	return definition, nil
}

// Own returns the definitions that the space of n has of its own, as they are served.
func (d *Definitions) Own(n tenant.Name) []*apiextensionsv1.CustomResourceDefinition {
	running := d.running(n)
	if running == nil {
		return nil
	}
	return running.all()
}

// all returns the definitions that a server serves.
func (s *server) all() []*apiextensionsv1.CustomResourceDefinition {
	definitions, err := s.definitions.List(labels.Everything())
	if err != nil {
		return nil // a lister of a cache does not fail
	}
	return definitions
}

// running returns the server of n, nil if none runs.
func (d *Definitions) running(n tenant.Name) *server {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.servers[n]
}

// setRunning notes that a server runs for n or, if it is nil, that none does.
func (d *Definitions) setRunning(n tenant.Name, running *server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if running == nil {
		delete(d.servers, n)
		return
	}
	d.servers[n] = running
}

// served returns those for which a server runs.
func (d *Definitions) served() []tenant.Name {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Collect(maps.Keys(d.servers))
}
