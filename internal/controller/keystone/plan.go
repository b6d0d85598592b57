package keystone

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Annotations of Tenants, and nameAnnotation of namespaces, too. Another of both is
// tenant.KeystoneGoneAnnotation.
const (
	// domainAnnotation is on Tenants that were made of a domain: KEYSTONE/DOMAIN-ID.
	domainAnnotation = "tenantry.io/keystone-domain"
	// nameAnnotation has the present name in Keystone.
	nameAnnotation = "tenantry.io/keystone-name"
	// suspendedAnnotation is on Tenants that are suspended because of Keystone, and has the
	// reason. Anybody who gives another reason has suspended the Tenant themselves.
	suspendedAnnotation = "tenantry.io/keystone-suspended"
	// templateAnnotation is on Tenants that have fields of spec.tenantTemplate, and has these as
	// they were written.
	templateAnnotation = "tenantry.io/keystone-template"
)

const (
	reasonDisabled = "the domain is disabled in Keystone"
	reasonGone     = "the domain is deleted in Keystone"

	// nobody is a group that no token has, see internal/server/authentication/keystone.
	nobody       = "keystone:nobody"
	groupProject = "keystone:project:"
	groupDomain  = "keystone:domain:"

	defaultGrace = 7 * 24 * time.Hour
)

// space is what there is of a domain.
type space struct {
	// tenant is nil if there is none.
	tenant *v1alpha1.Tenant
	// namespaces are those of projects, by id.
	namespaces map[string]*corev1.Namespace
	// bindings and clusterBindings are those that carry the label.
	bindings        []rbacv1.RoleBinding
	clusterBindings []rbacv1.ClusterRoleBinding
}

// change is one object that is not as it is to be. Without before it is to be made, without
// after to be deleted.
type change struct {
	tenant        string
	before, after client.Object
	// about is what Keystone calls it.
	about string
}

// object returns what a change is about.
func (c change) object() client.Object {
	if c.after != nil {
		return c.after
	}
	return c.before
}

// verb is for people.
func (c change) verb() string {
	switch {
	case c.before == nil:
		return "create"
	case c.after == nil:
		return "delete"
	default:
		return "update"
	}
}

// String describes a change for people.
func (c change) String() string {
	o := c.object()
	text := fmt.Sprintf("%s %s %q", c.verb(), kindOf(o), o.GetName())
	if o.GetNamespace() != "" {
		text += fmt.Sprintf(" in namespace %q", o.GetNamespace())
	}
	if _, ok := o.(*v1alpha1.Tenant); !ok {
		text += fmt.Sprintf(" of tenant %q", c.tenant)
	}
	if c.about != "" {
		text += fmt.Sprintf(" (%s)", c.about)
	}
	return text
}

// kindOf returns the kind of an object, in lower case.
func kindOf(o client.Object) string {
	switch o.(type) {
	case *v1alpha1.Tenant:
		return "tenant"
	case *corev1.Namespace:
		return "namespace"
	case *rbacv1.RoleBinding:
		return "rolebinding"
	default:
		return "clusterrolebinding"
	}
}

// planner says what is to be. It asks nobody.
type planner struct {
	// keystone is the name of the Keystone.
	keystone string
	spec     *v1alpha1.KeystoneSyncSpec
	now      time.Time
	// guarded is true while nothing is to be taken away that has gone from the lists.
	guarded bool
	// holdDomains and holdProjects are true while this holds for what is disabled, too.
	holdDomains, holdProjects bool
}

// mark returns the value of domainAnnotation.
func mark(keystone, domainID string) string { return keystone + "/" + domainID }

// domainOf returns the mark of a Tenant, and whether it was adopted.
func domainOf(t *v1alpha1.Tenant) (of string, adopted bool) {
	if of := t.Annotations[domainAnnotation]; of != "" {
		return of, false
	}
	return t.Annotations[v1alpha1.AdoptKeystoneDomainAnnotation], true
}

// plan is what is to be done in one domain.
type plan struct {
	changes            []change
	projects, bindings int
}

// add adds a change unless nothing changes.
func (p *plan) add(c change) {
	if c.before != nil && c.after != nil && apiequality.Semantic.DeepEqual(c.before, c.after) {
		return
	}
	p.changes = append(p.changes, c)
}

// phases returns the changes in the order in which they are to be made; those of one phase
// do not depend on each other.
func (p *plan) phases() [][]change {
	phases := make([][]change, 3)
	for _, c := range p.changes {
		phase := 2
		switch c.object().(type) {
		case *v1alpha1.Tenant:
			phase = 0
		case *corev1.Namespace:
			phase = 1
		}
		phases[phase] = append(phases[phase], c)
	}
	return phases
}

// domain plans for a domain that is there.
func (p planner) domain(d keystone.Domain, projects []keystone.Project, s space) plan {
	result := plan{}
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(d.Name, d.ID), Annotations: map[string]string{domainAnnotation: mark(p.keystone, d.ID)},
	}}
	about := change{about: fmt.Sprintf("domain %q", keystone.Printable(d.Name))}
	if s.tenant != nil {
		about.before, t = s.tenant, s.tenant.DeepCopy()
	}
	about.tenant, about.after = t.Name, t
	annotate(t, nameAnnotation, keystone.Printable(d.Name))
	annotate(t, tenant.KeystoneGoneAnnotation, "")
	t.Status.Keystone = &v1alpha1.TenantKeystone{Keystone: p.keystone, DomainID: d.ID}
	p.administer(t, d.ID)
	p.fill(t)
	if d.Enabled || !p.holdDomains || s.tenant == nil || t.Spec.Suspended {
		reason := ""
		if !d.Enabled {
			reason = reasonDisabled
		}
		suspend(t, reason)
	}
	result.add(about)
	w, bound := wanted{}, map[string][]*rbacv1.RoleBinding{}
	for i := range s.bindings {
		b := &s.bindings[i]
		bound[b.Namespace] = append(bound[b.Namespace], b)
	}
	for _, project := range projects {
		p.project(&result, t.Name, project, s.namespaces[project.ID], bound, w)
	}
	for _, mapping := range p.spec.RoleMappings {
		if mapping.Scope == v1alpha1.KeystoneScopeDomain {
			group := groupDomain + d.ID + ":" + mapping.RoleID
			w.add("", group, mapping.ClusterRole)
		}
	}
	here := idsOf(projects)
	for _, id := range slices.Sorted(maps.Keys(s.namespaces)) {
		if !here[id] {
			p.goneProject(&result, t.Name, s.namespaces[id], bound[s.namespaces[id].Name], w)
		}
	}
	result.bindings = len(w)
	w.compare(&result, t.Name, s)
	return result
}

// administer sets the administrators, unless somebody else has: without any, the user
// "admin" of whatever source of users is one.
func (p planner) administer(t *v1alpha1.Tenant, domainID string) {
	own := groupDomain + domainID + ":"
	if slices.ContainsFunc(t.Spec.Admins, func(s v1alpha1.Subject) bool {
		return s.Kind != v1alpha1.SubjectGroup || s.Name != nobody && !strings.HasPrefix(s.Name, own)
	}) {
		return
	}
	group := nobody
	if role := p.spec.TenantAdminRoleID; role != "" {
		group = own + role
	}
	t.Spec.Admins = []v1alpha1.Subject{{Kind: v1alpha1.SubjectGroup, Name: group}}
}

// fill sets the fields of the template, but for those that somebody has changed since. Setting one
// as the template has it, or as it was, gives it back.
func (p planner) fill(t *v1alpha1.Tenant) {
	if _, adopted := domainOf(t); adopted {
		return
	}
	var written, template v1alpha1.KeystoneTenantTemplate
	_ = json.Unmarshal([]byte(t.Annotations[templateAnnotation]), &written) // or nothing was
	if p.spec.TenantTemplate != nil {
		template = *p.spec.TenantTemplate.DeepCopy()
	}
	fillIn(&t.Spec.Quota, &written.Quota, template.Quota)
	fillIn(&t.Spec.NodePlacement, &written.NodePlacement, template.NodePlacement)
	fillIn(&t.Spec.DaemonSets, &written.DaemonSets, template.DaemonSets)
	fillIn(&t.Spec.RateLimit, &written.RateLimit, template.RateLimit)
	fillIn(&t.Spec.RequestLimit, &written.RequestLimit, template.RequestLimit)
	note, _ := json.Marshal(written) // it has been read from JSON
	if string(note) == "{}" {
		note = nil
	}
	annotate(t, templateAnnotation, string(note))
}

// fillIn sets one field, and what was written of it.
func fillIn[T any](is, written *T, template T) {
	if apiequality.Semantic.DeepEqual(*is, *written) || apiequality.Semantic.DeepEqual(*is, template) {
		*is, *written = template, template
	}
}

// suspend suspends a Tenant for a reason or, if that is empty, lifts what was suspended for
// such a reason. What somebody else has suspended stays so.
func suspend(t *v1alpha1.Tenant, reason string) {
	noted := t.Annotations[suspendedAnnotation]
	own := noted != "" && t.Spec.Suspended && t.Spec.SuspendedReason == noted
	if t.Spec.Suspended && !own {
		annotate(t, suspendedAnnotation, "")
		return
	}
	t.Spec.Suspended, t.Spec.SuspendedReason = reason != "", reason
	annotate(t, suspendedAnnotation, reason)
}

// annotate sets an annotation or, with an empty value, removes it.
func annotate(o client.Object, key, value string) {
	o.SetAnnotations(objects.WithKey(o.GetAnnotations(), key, value))
}

// project plans for a project that is there, in its namespace if there is one.
func (p planner) project(result *plan, n string, project keystone.Project, ns *corev1.Namespace, bound map[string][]*rbacv1.RoleBinding, w wanted) {
	if ns != nil && ns.DeletionTimestamp != nil {
		return // in a later run
	}
	result.projects++
	c := change{tenant: n, about: fmt.Sprintf("project %q", keystone.Printable(project.Name))}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   nameOf(project.Name, project.ID),
		Labels: map[string]string{tenant.KeystoneLabel: tenant.KeystoneProject}, Annotations: map[string]string{tenant.KeystoneIDAnnotation: project.ID},
	}}
	if ns != nil {
		c.before, namespace = ns, ns.DeepCopy()
	}
	annotate(namespace, nameAnnotation, keystone.Printable(project.Name))
	annotate(namespace, tenant.KeystoneGoneAnnotation, "")
	keep := p.holdProjects && newlyDisabled(project, ns)
	if !keep {
		if !project.Enabled || namespace.Annotations[tenant.KeystoneDisabledAnnotation] != "" {
			annotate(namespace, tenant.KeystoneDisabledAnnotation, strconv.FormatBool(!project.Enabled))
		}
	}
	c.after = namespace
	result.add(c)
	switch {
	case keep:
		w.keep(bound[namespace.Name])
		return
	case !project.Enabled:
		return // its tokens are refused, and so the bindings say nothing
	}
	for _, mapping := range p.spec.RoleMappings {
		if mapping.Scope == v1alpha1.KeystoneScopeProject {
			w.add(namespace.Name, groupProject+project.ID+":"+mapping.RoleID, mapping.ClusterRole)
		}
	}
}

// newlyDisabled reports whether a project has been disabled since the last run.
func newlyDisabled(project keystone.Project, ns *corev1.Namespace) bool {
	return !project.Enabled && ns != nil && ns.Annotations[tenant.KeystoneDisabledAnnotation] != "true"
}

// goneProject plans for a namespace whose project has gone, and the bindings in it.
func (p planner) goneProject(result *plan, n string, ns *corev1.Namespace, bindings []*rbacv1.RoleBinding, w wanted) {
	if ns.DeletionTimestamp != nil {
		return
	}
	since, gone := goneSince(ns)
	if !gone && p.guarded {
		w.keep(bindings)
		return
	}
	policy := p.spec.Deletion.Namespaces
	c := change{tenant: n, before: ns, about: "its project is deleted in Keystone"}
	if !gone || policy.Policy != v1alpha1.KeystoneDelete || p.now.Before(since.Add(graceOf(policy.GracePeriod))) {
		after := ns.DeepCopy()
		annotate(after, tenant.KeystoneGoneAnnotation, p.since(since, gone))
		c.after = after
	}
	result.add(c)
}

// gone plans for a Tenant whose domain has gone.
func (p planner) gone(t *v1alpha1.Tenant) plan {
	result := plan{}
	since, gone := goneSince(t)
	if !gone && p.guarded {
		return result
	}
	policy := p.spec.Deletion.Tenants
	_, adopted := domainOf(t)
	c := change{tenant: t.Name, before: t, about: "its domain is deleted in Keystone"}
	if !gone || adopted || policy.Policy != v1alpha1.KeystoneDelete || p.now.Before(since.Add(graceOf(policy.GracePeriod))) {
		after := t.DeepCopy()
		annotate(after, tenant.KeystoneGoneAnnotation, p.since(since, gone))
		suspend(after, reasonGone)
		c.after = after
	}
	result.add(c)
	return result
}

// since returns when something has first gone, for its annotation.
func (p planner) since(since time.Time, gone bool) string {
	if !gone {
		since = p.now
	}
	return since.UTC().Format(time.RFC3339)
}

// goneSince returns when the domain or project of an object had first gone, and whether it
// has.
func goneSince(o client.Object) (time.Time, bool) {
	since, err := time.Parse(time.RFC3339, o.GetAnnotations()[tenant.KeystoneGoneAnnotation])
	return since, err == nil
}

func graceOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return defaultGrace
	}
	return d.Duration
}
