package rights

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ErrNotEnumerable means that an authorization mode decides about single requests before those that
// can say all that they allow, and could deny what these allow.
var ErrNotEnumerable = errors.New("an authorization mode that decides about single requests alone comes before RBAC; " +
	"search needs the mode RBAC before Webhook and Node")

const incomplete = "the answer may be incomplete: an authorization mode decides about single requests alone, and is not asked about each object"

// compilation makes the Set of one user in one space.
type compilation struct {
	*State
	ctx       context.Context
	user      user.Info
	space     tenant.Name
	resources []Resource
	// masks has the resources that a rule lets list, by the rule.
	masks map[*rbacv1.PolicyRule]bits
	// whole are the resources that may be listed everywhere, and in those in single namespaces.
	whole bits
	in    map[string]bits
	set   *Set
	// bytes is how large the set is. It has an end.
	bytes int
	err   error
}

// Compile returns what the user of the request in ctx may list in a space, by the rules of the
// server's authorizer. An error of ctx ends it: users may have many rules.
func (s *State) Compile(ctx context.Context, u user.Info, space tenant.Name) (*Set, error) {
	userTenant, err := tenant.UserTenant(ctx)
	if err != nil {
		return nil, err
	}
	c := s.newCompilation(ctx, u, space)
	_, _, foreign := tenant.Foreign(ctx)
	switch {
	case foreign:
		c.byPolicies(userTenant)
	case authorization.IsPrivileged(userTenant, u):
		c.everything()
	default:
		err = c.byModes(userTenant)
		c.ofCreator(userTenant)
	}
	if err == nil && !c.over() {
		c.finish()
	}
	if err = errors.Join(err, c.err, ctx.Err()); err != nil {
		return nil, err
	}
	return c.set, nil
}

func (s *State) newCompilation(ctx context.Context, u user.Info, space tenant.Name) *compilation {
	c := &compilation{
		State: s, ctx: ctx, user: u, space: space, resources: s.served(space),
		masks: map[*rbacv1.PolicyRule]bits{}, in: map[string]bits{},
		set: &Set{
			Whole: sets.New[schema.GroupResource](), Named: map[schema.GroupResource]sets.Set[string]{},
			NamedIn: map[Range]sets.Set[string]{}, Denied: sets.New[string](),
		},
	}
	c.whole = newBits(len(c.resources))
	return c
}

// served returns the resources whose objects can be listed in a space.
func (s *State) served(n tenant.Name) []Resource {
	var resources []Resource
	for _, resource := range s.config.Builtin {
		usable := resource.Served
		if n.IsSpace() {
			usable = nil
			for _, served := range resource.Served {
				if spaceapi.Use("list", served, "") == nil {
					usable = append(usable, served)
				}
			}
		}
		if len(usable) > 0 {
			resources = append(resources, Resource{Stored: resource.Stored, Served: usable})
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	own := s.definitions[n]
	for resource, d := range own {
		if d.serves {
			resources = append(resources, Resource{Stored: resource, Served: []schema.GroupResource{resource}})
		}
	}
	if n == tenant.System {
		return resources
	}
	for resource, d := range s.definitions[tenant.System] {
		// A space that is being emptied has what was published once.
		shown := d.serves && (d.published || d.was && s.tenants[n].terminating)
		if _, defined := own[resource]; shown && !defined {
			resources = append(resources, Resource{Stored: resource, Served: []schema.GroupResource{resource}})
		}
	}
	return resources
}

// everything lets the user list all.
func (c *compilation) everything() {
	for i := range c.resources {
		c.whole.set(i)
	}
}

// byModes collects what the authorization modes allow, in their order.
func (c *compilation) byModes(userTenant tenant.Name) error {
	enumerated := false
	for _, mode := range c.config.Order() {
		switch string(mode) {
		case modes.ModeRBAC:
			enumerated = true
			c.byRBAC()
		case modes.ModeABAC:
			c.byABAC()
		case modes.ModeAlwaysAllow:
			c.everything()
			return nil
		case modes.ModeAlwaysDeny:
		case modes.ModeNode:
			if !authorization.IsNode(userTenant, c.user) {
				continue // it has no opinion about others
			}
			c.set.Incomplete = incomplete
			if !enumerated {
				return ErrNotEnumerable
			}
		default: // a webhook, or what is not known here
			if !enumerated {
				return ErrNotEnumerable
			}
			c.set.Incomplete = incomplete
		}
	}
	return nil
}

// byRBAC collects the rules of RBAC.
func (c *compilation) byRBAC() {
	c.parts.VisitWhole(c.ctx, c.user, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
		return c.rule(rule, err, c.whole, "", c.named)
	})
	for _, namespace := range c.boundIn(c.space) {
		if c.over() {
			return
		}
		c.parts.VisitNamespace(c.ctx, c.user, namespace, func(_ fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
			return c.rule(rule, err, c.inNamespace(namespace), namespace, func(resource schema.GroupResource) sets.Set[string] {
				return c.namedIn(resource, namespace)
			})
		})
	}
}

// rule adds what a rule lets list to all, or to the names of single objects. Like the authorizer, it
// leaves out what a binding names and is not there.
func (c *compilation) rule(rule *rbacv1.PolicyRule, err error, all bits, namespace string, named func(schema.GroupResource) sets.Set[string]) bool {
	if err != nil {
		if !apierrors.IsNotFound(err) {
			c.fail(err)
		}
		return !c.over()
	}
	mask := c.mask(rule)
	if len(rule.ResourceNames) == 0 {
		all.add(mask)
		return !c.over()
	}
	for i, resource := range c.resources {
		if mask.has(i) && !c.insert(named(resource.Stored), Range{resource.Stored, namespace}, rule.ResourceNames...) {
			return false
		}
	}
	return !c.over()
}

// mask returns the resources that a rule lets list.
func (c *compilation) mask(rule *rbacv1.PolicyRule) bits {
	if mask, known := c.masks[rule]; known {
		return mask
	}
	mask := newBits(len(c.resources))
	if rbacv1helpers.VerbMatches(rule, "list") {
		for i, resource := range c.resources {
			for _, served := range resource.Served {
				if rbacv1helpers.APIGroupMatches(rule, served.Group) && rbacv1helpers.ResourceMatches(rule, served.Resource, "") {
					mask.set(i)
				}
			}
		}
	}
	c.masks[rule] = mask
	return mask
}

func (c *compilation) inNamespace(namespace string) bits {
	if known := c.in[namespace]; known != nil {
		return known
	}
	in := newBits(len(c.resources))
	if c.pay(len(namespace)) {
		c.in[namespace] = in
	}
	return in
}

func (c *compilation) named(resource schema.GroupResource) sets.Set[string] {
	if c.set.Named[resource] == nil {
		c.set.Named[resource] = sets.New[string]()
	}
	return c.set.Named[resource]
}

func (c *compilation) namedIn(resource schema.GroupResource, namespace string) sets.Set[string] {
	in := Range{resource, namespace}
	if c.set.NamedIn[in] == nil {
		c.set.NamedIn[in] = sets.New[string]()
	}
	return c.set.NamedIn[in]
}

// everyNamespace is none that exists: a line of ABAC decides about it if it does about all.
const everyNamespace = "*"

// byABAC collects what the lines of the policy file allow.
func (c *compilation) byABAC() {
	if c.config.ABAC == nil {
		return
	}
	named := c.config.ABAC.Namespaces(c.ctx)
	for i, resource := range c.resources {
		for _, served := range resource.Served {
			if c.over() {
				return
			}
			if c.abacAllows(served, everyNamespace) {
				c.whole.set(i)
				continue
			}
			for _, namespace := range named {
				if !c.over() && c.abacAllows(served, namespace) {
					c.inNamespace(namespace).set(i)
				}
			}
		}
	}
}

func (c *compilation) abacAllows(resource schema.GroupResource, namespace string) bool {
	allowed, err := c.config.ABAC.Lists(c.ctx, c.user, resource.Group, resource.Resource, namespace)
	if err != nil {
		c.fail(err)
	}
	return allowed
}

// byPolicies collects what lets users of other tenants in.
func (c *compilation) byPolicies(userTenant tenant.Name) {
	for _, granted := range c.grants.GrantedTo(c.ctx, userTenant, c.space, c.user) {
		c.granted(&granted)
	}
	if c.tenant(userTenant).inService() {
		c.byABAC()
	}
}

func (c *compilation) granted(granted *authorization.Granted) {
	if c.over() || !rbacv1helpers.VerbMatches(&granted.PolicyRule, "list") {
		return
	}
	for i, resource := range c.resources {
		for _, served := range resource.Served {
			if !accesspolicy.Grantable("list", served.Group, served.Resource) ||
				!rbacv1helpers.APIGroupMatches(&granted.PolicyRule, served.Group) || !rbacv1helpers.ResourceMatches(&granted.PolicyRule, served.Resource, "") {
				continue
			}
			c.grantedIn(granted, i)
		}
	}
}

func (c *compilation) grantedIn(granted *authorization.Granted, i int) {
	resource := c.resources[i].Stored
	for _, namespace := range granted.Namespaces {
		switch {
		case c.over():
			return
		case namespace == v1alpha1.AllNamespaces && len(granted.ResourceNames) == 0:
			c.whole.set(i)
		case namespace == v1alpha1.AllNamespaces:
			c.insert(c.named(resource), Range{Resource: resource}, granted.ResourceNames...)
		case namespace == "": // holds nowhere
		case len(granted.ResourceNames) == 0:
			c.inNamespace(namespace).set(i)
		default:
			c.insert(c.namedIn(resource, namespace), Range{resource, namespace}, granted.ResourceNames...)
		}
	}
}

// ofCreator lets users list the namespaces that they have created, and nothing in them once their
// User is being deleted; see authorization.Creators.
func (c *compilation) ofCreator(userTenant tenant.Name) {
	if !c.space.IsSpace() || userTenant != c.space {
		return
	}
	if ending := c.users.Ending(c.space, c.user.GetName()); len(ending) > 0 {
		c.insert(c.set.Denied, Range{}, c.createdBy(c.space, ending)...)
	}
	if own, known := c.users.Find(c.space, c.user.GetName()); known {
		c.insert(c.named(namespaces), Range{Resource: namespaces}, c.createdBy(c.space, sets.New(string(own.UID)))...)
	}
}

// finish makes the set of what was collected.
func (c *compilation) finish() {
	for i, resource := range c.resources {
		if c.whole.has(i) {
			c.set.Whole.Insert(resource.Stored)
		}
	}
	groups := map[string]*Group{}
	for namespace, resources := range c.in {
		if !resources.without(c.whole) {
			continue
		}
		g := groups[resources.key()]
		if g == nil {
			g = &Group{Resources: sets.New[schema.GroupResource](), Namespaces: sets.New[string]()}
			groups[resources.key()] = g
			for i, resource := range c.resources {
				if resources.has(i) {
					g.Resources.Insert(resource.Stored)
				}
			}
		}
		g.Namespaces.Insert(namespace)
	}
	all := make([]Group, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	c.group(all)
}
