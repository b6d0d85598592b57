package tenant

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	upstreamaudit "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/progress"
	"github.com/tenantry/tenantry/internal/server/audit"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// State is what the request path needs to know of a tenant.
type State struct {
	// UID tells a tenant from an earlier one of the same name.
	UID types.UID
	// Labels are those of the Tenant.
	Labels labels.Set
	// Ready is what the condition says.
	Ready       bool
	Terminating bool
	Suspended   bool
	// Reason of the suspension, as given by the administrator; may be empty.
	Reason string
	// CredentialsNotBefore is when this tenant took the name of an earlier one;
	// zero if there was none.
	CredentialsNotBefore time.Time
	// Keystone is the domain whose tokens enter the space; zero for none.
	Keystone v1alpha1.TenantKeystone
	// NodePlacement, DaemonSets, Workloads, the limits and the audit policy are the tenant's own, nil if it has none.
	NodePlacement *v1alpha1.NodePlacement
	DaemonSets    *v1alpha1.DaemonSets
	Workloads     *v1alpha1.Workloads
	// Quota is the tenant's own, nil if it has none: the manager's does not say what is allowed.
	Quota        corev1.ResourceList
	RateLimit    *v1alpha1.RateLimit
	RequestLimit *v1alpha1.RequestLimit
	AuditPolicy  upstreamaudit.PolicyRuleEvaluator
	// Usage is what the status says, nil if nothing yet.
	Usage *v1alpha1.TenantUsage
}

// Lookup answers for every request whether its tenant exists. It follows the
// storage in this process and reads it through where it has not seen a tenant.
type Lookup struct {
	store  *REST
	usage  definition.StatusREST
	seen   *progress.Progress
	mu     sync.RWMutex
	states map[tenant.Name]State
	// domains are the tenants that name a domain of Keystone.
	domains map[v1alpha1.TenantKeystone]sets.Set[tenant.Name]
	// listed is whether all tenants are known.
	listed bool
	// requests end with their tenant, before another state of it is known.
	requests requests
}

// NewLookup returns a Lookup over the storage of Tenants. It serves at once, by
// reading through, and from memory once Run has caught up.
func NewLookup(storage *Storage) *Lookup {
	return &Lookup{store: storage.Tenant, usage: storage.usage, seen: storage.seen,
		states: make(map[tenant.Name]State), domains: make(map[v1alpha1.TenantKeystone]sets.Set[tenant.Name])}
}

// Get returns the state of a tenant and whether there is one.
func (l *Lookup) Get(ctx context.Context, n tenant.Name) (State, bool, error) {
	if n == tenant.System {
		return State{}, true, nil
	}
	l.mu.RLock()
	state, ok := l.states[n]
	l.mu.RUnlock()
	if ok {
		return state, true, nil
	}
	// The server reads, not the user of the request.
	own := tenant.WithSpace(request.WithUser(ctx, nil), tenant.System)
	obj, err := l.store.Get(own, string(n), &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, false, nil
	}
	if err != nil {
		return State{}, false, fmt.Errorf("reading tenant %q: %w", n, err)
	}
	return stateOf(obj.(*v1alpha1.Tenant)), true, nil
}

// known returns the state of a known tenant, and none of another.
func (l *Lookup) known(n tenant.Name) State {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.states[n]
}

// OfDomain returns the tenants that name a domain of Keystone, and the UID of one that
// alone does. It is false as long as not all tenants are known.
func (l *Lookup) OfDomain(domain v1alpha1.TenantKeystone) ([]tenant.Name, types.UID, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	names := sets.List(l.domains[domain])
	if len(names) != 1 {
		return names, "", l.listed
	}
	return names, l.states[names[0]].UID, l.listed
}

// DomainOf returns the domain of Keystone that a tenant names, if it does. It is false as long as
// not all tenants are known.
func (l *Lookup) DomainOf(n tenant.Name) (v1alpha1.TenantKeystone, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.states[n].Keystone, l.listed
}

// Terminating reports whether a known tenant is being deleted.
func (l *Lookup) Terminating(n tenant.Name) bool { return l.known(n).Terminating }

// UID returns the UID of a known tenant.
func (l *Lookup) UID(n tenant.Name) types.UID { return l.known(n).UID }

// Labels returns the labels of a known tenant.
func (l *Lookup) Labels(n tenant.Name) labels.Set { return l.known(n).Labels }

// RateLimit returns the limits of a known tenant, nil if it has none of its own.
func (l *Lookup) RateLimit(n tenant.Name) *v1alpha1.RateLimit { return l.known(n).RateLimit }

// RequestLimit returns the limits of single requests of a known tenant, nil if it has
// none of its own.
func (l *Lookup) RequestLimit(n tenant.Name) *v1alpha1.RequestLimit { return l.known(n).RequestLimit }

// AuditPolicy returns the audit policy of a known tenant, nil if it has none of its own.
func (l *Lookup) AuditPolicy(n tenant.Name) upstreamaudit.PolicyRuleEvaluator {
	return l.known(n).AuditPolicy
}

// NodePlacement returns how far pods of a known tenant may choose their nodes, nil
// if it does not say.
func (l *Lookup) NodePlacement(n tenant.Name) *v1alpha1.NodePlacement {
	return l.known(n).NodePlacement
}

// DaemonSets returns what becomes of the DaemonSets of a known tenant, nil if it does
// not say.
func (l *Lookup) DaemonSets(n tenant.Name) *v1alpha1.DaemonSets { return l.known(n).DaemonSets }

// Workloads returns what the pods of a known tenant may on a host cluster, nil if it does not say.
func (l *Lookup) Workloads(n tenant.Name) *v1alpha1.Workloads { return l.known(n).Workloads }

// Quota returns the quota of a known tenant, nil if it has none of its own.
func (l *Lookup) Quota(n tenant.Name) corev1.ResourceList { return l.known(n).Quota }

func stateOf(t *v1alpha1.Tenant) State {
	state := State{
		UID:           t.UID,
		Labels:        t.Labels,
		Ready:         meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady),
		Terminating:   t.DeletionTimestamp != nil,
		Suspended:     t.Spec.Suspended,
		Reason:        t.Spec.SuspendedReason,
		RateLimit:     t.Spec.RateLimit,
		AuditPolicy:   audit.Compile(t.Spec.AuditPolicy),
		RequestLimit:  t.Spec.RequestLimit,
		NodePlacement: t.Spec.NodePlacement,
		DaemonSets:    t.Spec.DaemonSets,
		Workloads:     t.Spec.Workloads,
		Quota:         t.Spec.Quota,
		Usage:         t.Status.Usage,
	}
	if domain := t.Status.Keystone; domain != nil && tenant.Name(t.Name).IsSpace() {
		state.Keystone = *domain
	}
	if since := t.Status.CredentialsNotBefore; since != nil {
		state.CredentialsNotBefore = since.Time
	}
	return state
}

// Run follows the storage until ctx ends.
func (l *Lookup) Run(ctx context.Context) {
	follow.Run(ctx, "tenant-lookup", tenant.System.Scope(), l.store, l, l.seen)
}

// Set implements follow.Index.
func (l *Lookup) Set(t *v1alpha1.Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, now := tenant.Name(t.Name), stateOf(t)
	if earlier, ok := l.states[n]; ok {
		l.requests.settleOne(n, earlier, now, true)
		keyed.Delete(l.domains, earlier.Keystone, n)
	}
	l.states[n] = now
	l.noteDomain(n, now.Keystone)
}

// noteDomain notes that a tenant names a domain, if it does. It is called with the lock.
func (l *Lookup) noteDomain(n tenant.Name, domain v1alpha1.TenantKeystone) {
	if domain != (v1alpha1.TenantKeystone{}) {
		keyed.Set(l.domains, domain, n, sets.Empty{})
	}
}

// Delete implements follow.Index.
func (l *Lookup) Delete(t *v1alpha1.Tenant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := tenant.Name(t.Name)
	keyed.Delete(l.domains, l.states[n].Keystone, n)
	delete(l.states, n)
	l.requests.settleOne(n, stateOf(t), State{}, false)
}

// Replace implements follow.Index.
func (l *Lookup) Replace(all []*v1alpha1.Tenant) {
	states := make(map[tenant.Name]State, len(all))
	for _, t := range all {
		states[tenant.Name(t.Name)] = stateOf(t)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests.settle(func(g group) bool {
		state, exists := states[g.name]
		return g.admits(state, exists)
	})
	l.states, l.listed = states, true
	clear(l.domains)
	for n, state := range states {
		l.noteDomain(n, state.Keystone)
	}
}
