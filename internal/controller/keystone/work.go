package keystone

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

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
		keyed.Set(k.namespaces, ns.Annotations[tenant.Annotation], ns.Annotations[tenant.KeystoneIDAnnotation], ns)
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
	// working is full when as many writes are made as may be at once.
	working chan struct{}
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
	w := &work{working: make(chan struct{}, writesAtOnce)}
	projects := map[string][]keystone.Project{}
	for _, project := range listed.Projects {
		if !project.IsDomain {
			projects[project.DomainID] = append(projects[project.DomainID], project)
		}
	}
	here := map[string]bool{}
	for _, domain := range listed.Domains {
		here[domain.ID] = true
		if selects(&s.Spec.Domains, domain.Ref) {
			w.add(item{domain: domain, projects: projects[domain.ID]}, name, k)
		}
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

// add adds a domain that is there, with what there is of it.
func (w *work) add(i item, name string, k *known) {
	if why := i.find(name, k); why != "" {
		w.conflicts = append(w.conflicts, why)
		return
	}
	if i.tenant == nil {
		w.items = append(w.items, i)
		return
	}
	if i.tenant.DeletionTimestamp != nil {
		return // in a later run
	}
	w.domainCensus.see(i.domain.ID, false, !i.domain.Enabled && !i.tenant.Spec.Suspended)
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
	w.items = append(w.items, i)
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
	about := fmt.Sprintf("domain %q (%s)", keystone.Printable(i.domain.Name), i.domain.ID)
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
