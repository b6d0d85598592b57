package keystone

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
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
	// unknownDomains are those of the spec that Keystone does not have, nil if that is not known.
	unknownDomains []string
}

// run does all there is to do, and says what that was.
func (r *Reconciler) run(ctx context.Context, s *v1alpha1.KeystoneSync, now time.Time) *outcome {
	source, name, err := r.Cloud()
	switch {
	case err != nil:
		return &outcome{reason: v1alpha1.ReasonFailed, message: err.Error(), err: err}
	case source == nil:
		return &outcome{reason: v1alpha1.ReasonNotConfigured,
			message: "no Keystone is configured: start the manager (tenantry up, tenantry manager) with --keystone-config"}
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
			other, keystone.Printable(domain.Name), domain.ID)
		return nil
	}
	known, err := r.observe(ctx, name)
	if err != nil {
		return err
	}
	found.unknownDomains = unknownDomains(&s.Spec.Domains, listed.Domains)
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

// each plans for all domains and, if write is true, applies that. What fails in one
// domain does not concern the others.
func (r *Reconciler) each(ctx context.Context, w *work, p planner, write bool, found *outcome) error {
	parts := make([]part, len(w.items)+len(w.gone))
	workqueue.ParallelizeUntil(ctx, atOnce, len(parts), func(n int) { parts[n] = r.one(ctx, w, n, p, write) })
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
	taken := map[target]bool{}
	for _, phase := range p.phases() {
		phase = slices.DeleteFunc(phase, func(c change) bool {
			return taken[target{c.tenant, ""}] || taken[target{c.tenant, c.object().GetNamespace()}]
		})
		workqueue.ParallelizeUntil(ctx, writesAtOnce, len(phase), func(n int) {
			c := phase[n]
			w.working <- struct{}{}
			err := r.cluster.Apply(ctx, c)
			<-w.working
			mu.Lock()
			defer mu.Unlock()
			if at, ok := targetOf(c); ok && err != nil {
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
		})
	}
	slices.Sort(conflicts)
	return made, conflicts, errors.Join(failed...)
}

// target is a space or, with a namespace, a namespace in it.
type target struct{ tenant, namespace string }

// targetOf returns what a change makes, if that is one.
func targetOf(c change) (at target, ok bool) {
	switch o := c.object().(type) {
	case *v1alpha1.Tenant:
		return target{o.Name, ""}, true
	case *corev1.Namespace:
		return target{c.tenant, o.Name}, true
	default:
		return target{}, false
	}
}
