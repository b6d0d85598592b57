package sync

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// The kinds of what may not go: objects of the host, and pods of spaces. There are so many series, and none of a
// tenant.
const (
	heldOrphans = "orphans"
	heldLosses  = "losses"
)

var heldDeletions = metrics.NewCounterVec(&metrics.CounterOpts{
	Name: "tenantry_syncer_held_deletions_total", StabilityLevel: metrics.ALPHA,
	Help: "How often the syncer has not deleted something, because too much would have gone; it is tried again: orphans (objects of the host that are made of what no space has), losses (pods of spaces that the host has lost). The log says of which tenant, and the way out.",
}, []string{"kind"})

// ServeMetrics shows the metrics of the syncer among those of the process.
var ServeMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(heldDeletions) })
