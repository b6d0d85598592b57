package keystone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	defaultInterval = 5 * time.Minute
	// atOnce is how many domains are worked on at once, and writesAtOnce how many objects are
	// written, in all of them.
	atOnce, writesAtOnce = 8, 16
)

// cloud is a Keystone; keystone.Client is one.
type cloud interface {
	List(ctx context.Context) (*keystone.Listing, error)
	Assigned(ctx context.Context, of func(id string) bool) (map[string]int32, error)
	DomainOfRole(ctx context.Context, id string) (string, error)
}

// Reconciler reconciles KeystoneSyncs.
type Reconciler struct {
	// Client reads KeystoneSyncs and writes their status.
	Client client.Client
	// Events tells about KeystoneSyncs.
	Events events.EventRecorder
	// Cloud returns the Keystone that is configured now, and its name; nil if there is none.
	Cloud func() (cloud, string, error)
	// now is the time.
	now func() time.Time

	cluster cluster
}

// Reconcile implements reconcile.Reconciler. It does a whole run.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s := &v1alpha1.KeystoneSync{}
	if err := r.Client.Get(ctx, request.NamespacedName, s); err != nil {
		forget(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if s.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	begin := r.now()
	found := r.run(ctx, s, begin)
	if ctx.Err() != nil {
		return reconcile.Result{}, ctx.Err()
	}
	found.duration = r.now().Sub(begin)
	if err := r.report(ctx, s, found, begin); err != nil {
		return reconcile.Result{}, err
	}
	if found.err != nil && found.inDomains { // which do not keep others waiting
		log.FromContext(ctx).Error(found.err, "Not all domains are as Keystone says")
		return reconcile.Result{RequeueAfter: min(intervalOf(s), domainRetry)}, nil
	}
	if found.err != nil {
		return reconcile.Result{}, found.err // tried again, later and later
	}
	if found.reason == v1alpha1.ReasonNotConfigured {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: intervalOf(s)}, nil
}

func intervalOf(s *v1alpha1.KeystoneSync) time.Duration {
	if s.Spec.Interval == nil {
		return defaultInterval
	}
	return s.Spec.Interval.Duration
}

// outcome is what a run came to.
type outcome struct {
	// reason is that of the condition Ready, which is true for ReasonSynced and
	// ReasonPreviewed.
	reason, message string
	// err is what failed and is tried again, and inDomains whether nothing else failed than what is in domains.
	err       error
	inDomains bool
	// complete is whether Keystone's lists were.
	complete bool
	duration time.Duration

	domains, projects, bindings int
	// planned are descriptions of the first changes, with mode Preview; changes counts all
	// that were made or planned.
	planned   []string
	changes   int
	conflicts []string
	removed   *v1alpha1.KeystoneRemoved
	// unmapped is nil if it is not known.
	unmapped []v1alpha1.KeystoneUnmappedRole
	// missing are ClusterRoles that a space does not have, nil if that is not known.
	missing []string
	// lacking is the tenant of that space.
	lacking string
}

// run does all there is to do, and says what that was.
func (r *Reconciler) run(ctx context.Context, s *v1alpha1.KeystoneSync, now time.Time) *outcome {
	source, name, err := r.Cloud()
	switch {
	case err != nil:
		return &outcome{reason: v1alpha1.ReasonFailed, message: err.Error(), err: err}
	case source == nil:
		return &outcome{reason: v1alpha1.ReasonNotConfigured,
			message: "no Keystone is configured: start the operator (tenantry up, tenantry manager) with --keystone-config"}
	}
	listed, err := source.List(ctx)
	if err != nil {
		return &outcome{reason: v1alpha1.ReasonIncomplete, message: "nothing is changed: " + err.Error(), err: err}
	}
	found := &outcome{complete: true}
	if err := r.sync(ctx, s, source, name, listed, now, found); err != nil {
		found.reason, found.message, found.err = v1alpha1.ReasonFailed, err.Error(), err
	}
	if found.reason == v1alpha1.ReasonOverlaps {
		return found
	}
	if found.unmapped, err = unmapped(ctx, source, s, listed); err != nil {
		log.FromContext(ctx).Error(err, "Unmapped roles are not reported")
	}
	return found
}

// sync brings about, or plans, what is to be.
func (r *Reconciler) sync(ctx context.Context, s *v1alpha1.KeystoneSync, source cloud, name string, listed *keystone.Listing, now time.Time, found *outcome) error {
	all := &v1alpha1.KeystoneSyncList{}
	if err := r.Client.List(ctx, all); err != nil {
		return fmt.Errorf("listing KeystoneSyncs: %w", err)
	}
	if other, domain := overlap(s, all.Items, listed.Domains); other != "" {
		found.reason = v1alpha1.ReasonOverlaps
		found.message = fmt.Sprintf("nothing is done: KeystoneSync %q, which is older, has domain %q (%s), too; a domain must be among those of one alone",
			other, printable(domain.Name), domain.ID)
		return nil
	}
	known, err := r.observe(ctx, name)
	if err != nil {
		return err
	}
	w := newWork(s, name, listed, known)
	found.removed = guard(&s.Spec.Guard, w.domainCensus, w.projectCensus)
	unknown, err := unknownRoles(ctx, source, &s.Spec, listed.Roles)
	if err != nil {
		return err
	}
	found.conflicts = append(w.conflicts, unknown...)
	p := planner{keystone: name, spec: &s.Spec, now: now, guarded: found.removed != nil}
	if found.removed != nil {
		p.holdDomains, p.holdProjects = found.removed.DisabledDomains > 0, found.removed.DisabledProjects > 0
	}
	if err := r.each(ctx, w, p, s.Spec.Mode == v1alpha1.KeystoneSyncSync, found); err != nil {
		found.inDomains = true
		return err
	}
	if found.missing, found.lacking, err = r.missing(ctx, w, &s.Spec, s.Spec.Mode == v1alpha1.KeystoneSyncSync); err != nil {
		log.FromContext(ctx).Error(err, "Missing ClusterRoles are not reported")
	}
	found.conclude(s)
	return nil
}

// conclude says what a run without errors came to.
func (o *outcome) conclude(s *v1alpha1.KeystoneSync) {
	switch {
	case o.removed != nil:
		o.reason = v1alpha1.ReasonTooMuchGone
		o.message = fmt.Sprintf("%s; nothing is taken away for it until spec.guard.acknowledged is %q", describe(o.removed), o.removed.Token)
	case len(o.conflicts) > 0:
		o.reason, o.message = v1alpha1.ReasonConflicts, fmt.Sprintf("%d conflicts, see status.conflicts; the first: %s", len(o.conflicts), o.conflicts[0])
	case s.Spec.Mode == v1alpha1.KeystoneSyncSync:
		o.reason, o.message = v1alpha1.ReasonSynced, "Tenants, namespaces and bindings are as Keystone says"
	default:
		o.reason, o.message = v1alpha1.ReasonPreviewed, fmt.Sprintf("spec.mode: Sync would make %d changes", o.changes)
	}
}

// known is what there is.
type known struct {
	// tenants are those of domains, by id.
	tenants map[string][]*v1alpha1.Tenant
	// marked are those that name a domain in the status alone, by its id.
	marked map[string]*v1alpha1.Tenant
	// namespaces are those of projects, by tenant and id.
	namespaces map[string]map[string]*corev1.Namespace
}

// observe reads what there is of a Keystone in all spaces, but for bindings.
func (r *Reconciler) observe(ctx context.Context, name string) (*known, error) {
	tenants, err := r.cluster.Tenants(ctx)
	if err != nil {
		return nil, err
	}
	namespaces, err := r.cluster.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	k := &known{map[string][]*v1alpha1.Tenant{}, map[string]*v1alpha1.Tenant{}, map[string]map[string]*corev1.Namespace{}}
	for i := range tenants {
		t := &tenants[i]
		of, _ := domainOf(t)
		if id, ok := strings.CutPrefix(of, mark(name, "")); ok && tenant.Name(t.Name).IsSpace() {
			k.tenants[id] = append(k.tenants[id], t)
		} else if status := t.Status.Keystone; status != nil && status.Keystone == name {
			k.marked[status.DomainID] = t
		}
	}
	for i := range namespaces {
		ns := &namespaces[i]
		n := ns.Annotations[tenant.Annotation]
		if k.namespaces[n] == nil {
			k.namespaces[n] = map[string]*corev1.Namespace{}
		}
		k.namespaces[n][ns.Annotations[tenant.KeystoneIDAnnotation]] = ns
	}
	return k, nil
}

// work is what a run is about.
type work struct {
	// items are the domains that are there, and gone the Tenants of those that are not.
	items                       []item
	gone                        []*v1alpha1.Tenant
	domainCensus, projectCensus census
	conflicts                   []string
	// slots are those of writes.
	slots chan struct{}
}

// item is one domain.
type item struct {
	domain     keystone.Domain
	projects   []keystone.Project
	tenant     *v1alpha1.Tenant
	namespaces map[string]*corev1.Namespace
}

// newWork joins what Keystone has with what there is.
func newWork(s *v1alpha1.KeystoneSync, name string, listed *keystone.Listing, k *known) *work {
	w := &work{slots: make(chan struct{}, writesAtOnce)}
	projects := map[string][]keystone.Project{}
	for _, project := range listed.Projects {
		if !project.IsDomain {
			projects[project.DomainID] = append(projects[project.DomainID], project)
		}
	}
	here := map[string]bool{}
	for _, domain := range listed.Domains {
		here[domain.ID] = true
		if !selects(&s.Spec.Domains, domain.Ref) {
			continue
		}
		i := item{domain: domain, projects: projects[domain.ID]}
		if why := i.find(name, k); why != "" {
			w.conflicts = append(w.conflicts, why)
			continue
		}
		if i.tenant != nil {
			if i.tenant.DeletionTimestamp != nil {
				continue // in a later run
			}
			w.domainCensus.see(domain.ID, false, !domain.Enabled && !i.tenant.Spec.Suspended)
			i.namespaces = k.namespaces[i.tenant.Name]
			ids := idsOf(i.projects)
			for _, project := range i.projects {
				if ns := i.namespaces[project.ID]; ns != nil {
					w.projectCensus.see(project.ID, false, newlyDisabled(project, ns))
				}
			}
			for id, ns := range i.namespaces {
				if _, before := goneSince(ns); !ids[id] && !before {
					w.projectCensus.see(id, true, false)
				}
			}
		}
		w.items = append(w.items, i)
	}
	for id, tenants := range k.tenants {
		for _, t := range tenants {
			domain := keystone.Ref{ID: id, Name: t.Annotations[nameAnnotation]}
			if here[id] || t.DeletionTimestamp != nil || !selects(&s.Spec.Domains, domain) {
				continue
			}
			if _, before := goneSince(t); !before {
				w.domainCensus.see(id, true, false)
			}
			w.gone = append(w.gone, t)
		}
	}
	slices.SortFunc(w.items, func(a, b item) int { return cmp.Compare(a.domain.ID, b.domain.ID) })
	slices.SortFunc(w.gone, func(a, b *v1alpha1.Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return w
}

func idsOf(projects []keystone.Project) map[string]bool {
	ids := make(map[string]bool, len(projects))
	for _, project := range projects {
		ids[project.ID] = true
	}
	return ids
}

// find finds the Tenant of a domain, or returns why there cannot be one.
func (i *item) find(name string, k *known) (why string) {
	about := fmt.Sprintf("domain %q (%s)", printable(i.domain.Name), i.domain.ID)
	switch tenants := k.tenants[i.domain.ID]; {
	case len(tenants) > 1:
		return fmt.Sprintf("%s: tenants %q and %q are both annotated as its own", about, tenants[0].Name, tenants[1].Name)
	case len(tenants) == 1:
		i.tenant = tenants[0]
	}
	if t := k.marked[i.domain.ID]; t != nil {
		return fmt.Sprintf("%s: tenant %q names it in status.keystone; annotate the Tenant with %s=%s to have it synchronised", about, t.Name,
			v1alpha1.AdoptKeystoneDomainAnnotation, mark(name, i.domain.ID))
	}
	if i.tenant == nil {
		return ""
	}
	if status := i.tenant.Status.Keystone; status != nil && *status != (v1alpha1.TenantKeystone{Keystone: name, DomainID: i.domain.ID}) {
		return fmt.Sprintf("%s: tenant %q, which is annotated as its own, names domain %q of Keystone %q in status.keystone", about, i.tenant.Name, status.DomainID, status.Keystone)
	}
	return ""
}

// each plans for all domains and, if write is true, applies that. What fails in one
// domain does not concern the others.
func (r *Reconciler) each(ctx context.Context, w *work, p planner, write bool, found *outcome) error {
	parts := make([]part, len(w.items)+len(w.gone))
	group := errgroup.Group{}
	group.SetLimit(atOnce)
	for n := range parts {
		group.Go(func() error {
			parts[n] = r.one(ctx, w, n, p, write)
			return nil
		})
	}
	_ = group.Wait()
	found.domains = len(w.items)
	var errs []error
	for _, part := range parts {
		found.projects += part.projects
		found.bindings += part.bindings
		found.changes += part.made
		found.planned = append(found.planned, part.planned...)
		found.conflicts = append(found.conflicts, part.conflicts...)
		if part.err != nil {
			errs = append(errs, part.err)
		}
	}
	if len(errs) > 1 {
		return fmt.Errorf("%d domains failed, one of them: %w", len(errs), errs[0])
	}
	return errors.Join(errs...)
}

// part is what became of one domain.
type part struct {
	projects, bindings, made int
	planned, conflicts       []string
	err                      error
}

// attempts is how often a domain is planned anew because its Tenant has changed meanwhile.
const attempts = 4

// one plans for one domain, the nth, and applies that if write is true.
func (r *Reconciler) one(ctx context.Context, w *work, n int, p planner, write bool) part {
	var t *v1alpha1.Tenant
	var planFor func(t *v1alpha1.Tenant) (plan, error)
	if n < len(w.items) {
		i := w.items[n]
		t, planFor = i.tenant, func(t *v1alpha1.Tenant) (plan, error) { return r.plan(ctx, p, i, t) }
	} else {
		t, planFor = w.gone[n-len(w.items)], func(t *v1alpha1.Tenant) (plan, error) { return p.gone(t), nil }
	}
	made := 0
	for attempt := 1; ; attempt++ {
		planned, err := planFor(t)
		if err != nil {
			return part{made: made, err: err}
		}
		result := part{projects: planned.projects, bindings: planned.bindings, made: len(planned.changes)}
		if !write {
			for _, c := range planned.changes[:min(len(planned.changes), maxReported)] {
				result.planned = append(result.planned, c.String())
			}
			return result
		}
		result.made, result.conflicts, result.err = r.apply(ctx, w, planned)
		made += result.made
		result.made = made
		if t == nil || !apierrors.IsConflict(result.err) || attempt == attempts {
			return result
		}
		if t, err = r.cluster.Tenant(ctx, t.Name); err != nil {
			result.err = err
			return result
		}
	}
}

// plan plans for a domain that is there.
func (r *Reconciler) plan(ctx context.Context, p planner, i item, t *v1alpha1.Tenant) (plan, error) {
	s := space{tenant: t, namespaces: i.namespaces}
	if t != nil {
		var err error
		if s.bindings, s.clusterBindings, err = r.cluster.Bindings(ctx, tenant.Name(t.Name)); err != nil {
			return plan{}, err
		}
	}
	return p.domain(i.domain, i.projects, s), nil
}

// apply makes the changes of a plan: the Tenant first, then namespaces, then bindings, of
// each many at once. What is in a namespace, or a space, that is somebody else's, or could not be made, is left out.
func (r *Reconciler) apply(ctx context.Context, w *work, p plan) (made int, conflicts []string, err error) {
	var mu sync.Mutex
	var failed []error
	taken := map[place]bool{}
	for _, phase := range p.phases() {
		group := errgroup.Group{}
		group.SetLimit(writesAtOnce)
		phase = slices.DeleteFunc(phase, func(c change) bool {
			return taken[place{c.tenant, ""}] || taken[place{c.tenant, c.object().GetNamespace()}]
		})
		for _, c := range phase {
			group.Go(func() error {
				w.slots <- struct{}{}
				err := r.cluster.Apply(ctx, c)
				<-w.slots
				mu.Lock()
				defer mu.Unlock()
				if at, ok := placeOf(c); ok && err != nil {
					taken[at] = true
				}
				var inTheWay conflict
				switch {
				case errors.As(err, &inTheWay):
					conflicts = append(conflicts, err.Error())
				case err != nil:
					failed = append(failed, err)
				default:
					made++
					changed.WithLabelValues(kindOf(c.object()), c.verb()).Inc()
				}
				return nil
			})
		}
		_ = group.Wait()
	}
	slices.Sort(conflicts)
	return made, conflicts, errors.Join(failed...)
}

// place is a space or, with a namespace, a namespace in it.
type place struct{ tenant, namespace string }

// placeOf returns what a change makes, if that is a place.
func placeOf(c change) (at place, ok bool) {
	switch o := c.object().(type) {
	case *v1alpha1.Tenant:
		return place{o.Name, ""}, true
	case *corev1.Namespace:
		return place{c.tenant, o.Name}, true
	default:
		return place{}, false
	}
}

// unknownRoles says which mappings are of roles that tokens do not have: those that Keystone does
// not have, such as names, and those of one domain.
func unknownRoles(ctx context.Context, source cloud, spec *v1alpha1.KeystoneSyncSpec, roles []keystone.Ref) ([]string, error) {
	ids := map[string]bool{"": true}
	for _, role := range roles {
		ids[role.ID] = true
	}
	var unknown []string
	check := func(field, id string) error {
		if ids[id] {
			return nil
		}
		domain, err := source.DomainOfRole(ctx, id)
		if domain == "" {
			unknown = append(unknown, fmt.Sprintf("%s: Keystone has no role with the id %q", field, id))
		} else {
			unknown = append(unknown, fmt.Sprintf("%s: role %q is one of domain %q alone, and no token has such roles: map a role without domain, which it may imply", field, id, printable(domain)))
		}
		return err
	}
	var errs []error
	for i, mapping := range spec.RoleMappings {
		errs = append(errs, check(fmt.Sprintf("spec.roleMappings[%d]", i), mapping.RoleID))
	}
	errs = append(errs, check("spec.tenantAdminRoleID", spec.TenantAdminRoleID))
	return unknown, errors.Join(errs...)
}

// missing returns the ClusterRoles that the first of the tenants' spaces does not have: it
// stands for the others. Bindings of them give nothing.
func (r *Reconciler) missing(ctx context.Context, w *work, spec *v1alpha1.KeystoneSyncSpec, made bool) (missing []string, of string, err error) {
	i := slices.IndexFunc(w.items, func(i item) bool { return i.tenant != nil || made })
	if i < 0 {
		return nil, "", nil
	}
	n := nameOf(w.items[i].domain.Name, w.items[i].domain.ID)
	if t := w.items[i].tenant; t != nil {
		n = t.Name
	}
	missing = []string{}
	for _, mapping := range spec.RoleMappings {
		found, err := r.cluster.HasClusterRole(ctx, tenant.Name(n), mapping.ClusterRole)
		if err != nil {
			return nil, "", err
		}
		if name := strconv.Quote(mapping.ClusterRole); !found && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return missing, n, nil
}

// unmapped returns the roles that somebody has in a selected domain and that are mapped in no
// scope.
func unmapped(ctx context.Context, source cloud, s *v1alpha1.KeystoneSync, listed *keystone.Listing) ([]v1alpha1.KeystoneUnmappedRole, error) {
	selected := map[string]bool{}
	for _, domain := range listed.Domains {
		selected[domain.ID] = selects(&s.Spec.Domains, domain.Ref)
	}
	for _, project := range listed.Projects {
		selected[project.ID] = selected[project.DomainID]
	}
	counts, err := source.Assigned(ctx, func(id string) bool { return selected[id] })
	if err != nil {
		return nil, err
	}
	delete(counts, s.Spec.TenantAdminRoleID)
	for _, mapping := range s.Spec.RoleMappings {
		delete(counts, mapping.RoleID)
	}
	names := map[string]string{}
	for _, role := range listed.Roles {
		names[role.ID] = printable(role.Name)
	}
	result := []v1alpha1.KeystoneUnmappedRole{}
	for id, count := range counts {
		result = append(result, v1alpha1.KeystoneUnmappedRole{ID: id, Name: names[id], Assignments: count})
	}
	slices.SortFunc(result, func(a, b v1alpha1.KeystoneUnmappedRole) int { return cmp.Compare(a.ID, b.ID) })
	return result, nil
}
