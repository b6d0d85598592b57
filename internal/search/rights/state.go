package rights

import (
	"context"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/registry/user"
	"github.com/tenantry/tenantry/internal/server/storage"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Config is what decides rights and is not stored.
type Config struct {
	// Builtin are the built-in resources that can be listed.
	Builtin []Resource
	// Order returns the authorization modes in their order.
	Order func() []authzconfig.AuthorizerType
	// ABAC are the policies of the file, nil without that mode.
	ABAC *authorization.ABAC
}

// Resource is a resource of which objects can be listed.
type Resource struct {
	// Stored names it in the stream of changes.
	Stored schema.GroupResource
	// Served are the names by which it is listed: events have two.
	Served []schema.GroupResource
}

// State is what decides rights, as far as it has been told. Tell is called by one goroutine.
type State struct {
	config Config
	rbac   *spacerbac.Index
	parts  spacerbac.Parts
	grants *authorization.Grants
	users  *user.Index
	// stored are the Users by their place, whose deletion says no more.
	stored map[storage.ObjectKey]*v1alpha1.User

	mu      sync.RWMutex
	tenants map[tenant.Name]tenantState
	// bound counts the RoleBindings of each namespace that has some.
	bound map[tenant.Name]map[string]int
	// bindings are their names, by which a new version is told from a new object.
	bindings map[storage.ObjectKey]struct{}
	// creators are the UIDs of the Users that have created namespaces.
	creators    map[tenant.Name]map[string]string
	definitions map[tenant.Name]map[schema.GroupResource]definition

	versions map[tenant.Name]Version
	// everywhere is the version of what concerns all spaces.
	everywhere Version
	changes    int64
	// changing is the space in which something is being changed, "" for none, and all for all.
	changing tenant.Scope
	// changed is told at the end of a change.
	changed signal.Broadcast
}

type tenantState struct {
	uid                    types.UID
	labels                 labels.Set
	terminating, suspended bool
}

// inService reports whether a tenant is known, and neither being deleted nor suspended.
func (t tenantState) inService() bool { return t.uid != "" && !t.terminating && !t.suspended }

// definition is a CustomResourceDefinition.
type definition struct {
	// serves is whether its objects can be listed in the space that has it.
	serves bool
	// published is whether they can be in other spaces, and was whether they could be.
	published, was bool
}

// Version tells one state of the rights in a space from every other.
type Version struct {
	count int64
	// Revision is when the rights have changed last.
	Revision int64
}

// NewState returns a state that has been told of nothing.
func NewState(config Config) *State {
	s := &State{
		config: config, users: user.NewIndex(), stored: map[storage.ObjectKey]*v1alpha1.User{},
		tenants: map[tenant.Name]tenantState{}, bound: map[tenant.Name]map[string]int{}, bindings: map[storage.ObjectKey]struct{}{},
		creators: map[tenant.Name]map[string]string{}, definitions: map[tenant.Name]map[schema.GroupResource]definition{},
		versions: map[tenant.Name]Version{},
	}
	s.rbac = spacerbac.NewFollowed(func(n tenant.Name) labels.Set { return s.tenant(n).labels })
	s.parts = spacerbac.NewParts(s.rbac)
	s.grants = authorization.NewGrants(func(_ context.Context, n tenant.Name) (types.UID, bool) {
		t := s.tenant(n)
		return t.uid, t.inService()
	})
	return s
}

func (s *State) tenant(n tenant.Name) tenantState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tenants[n]
}

// Terminating reports whether the tenant of a space is being deleted.
func (s *State) Terminating(n tenant.Name) bool { return s.tenant(n).terminating }

// UID returns the UID of a tenant, empty if there is none.
func (s *State) UID(n tenant.Name) types.UID { return s.tenant(n).uid }

// Suspended reports whether a tenant is suspended.
func (s *State) Suspended(n tenant.Name) bool { return s.tenant(n).suspended }

// Served returns the names by which a stored resource is listed.
func (s *State) Served(stored schema.GroupResource) []schema.GroupResource {
	return ServedOf(s.config.Builtin, stored)
}

// ServedOf returns the names by which a stored resource is listed, which is one of the built-in resources or of a
// definition.
func ServedOf(resources []Resource, stored schema.GroupResource) []schema.GroupResource {
	for _, builtin := range resources {
		if builtin.Stored == stored {
			return builtin.Served
		}
	}
	return []schema.GroupResource{stored}
}

// The resources that decide rights.
var (
	roles               = schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}
	roleBindings        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	clusterRoles        = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	clusterRoleBindings = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
	namespaces          = schema.GroupResource{Resource: "namespaces"}
	definitions         = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}
)

// setters have what is done with a new version of an object, nil for one that has gone, by resource. They return
// what does it, nil if the rights stay what they are.
var setters = map[schema.GroupResource]func(s *State, p storage.ObjectKey, obj runtime.Object) (commit func() error){
	roles:                   setRBAC[rbacv1.Role],
	clusterRoles:            setRBAC[rbacv1.ClusterRole],
	clusterRoleBindings:     setRBAC[rbacv1.ClusterRoleBinding],
	roleBindings:            (*State).setRoleBinding,
	tenantregistry.Resource: typed((*State).setTenant),
	accesspolicy.Resource:   typed((*State).setPolicy),
	user.Resource:           typed((*State).setUser),
	namespaces:              (*State).setNamespace,
	definitions:             typed((*State).setDefinition),
}

// Decides reports whether objects of a resource decide rights.
func Decides(resource schema.GroupResource) bool { return setters[resource] != nil }

// Tell tells of a new version of an object of a resource that decides rights, nil if it has gone, at a
// revision. It returns where rights may have changed, of users of that tenant or in its space: empty for nowhere.
func (s *State) Tell(resource schema.GroupResource, p storage.ObjectKey, obj runtime.Object, revision int64) (in tenant.Scope, err error) {
	commit := setters[resource](s, p, obj)
	if commit == nil {
		return "", nil
	}
	in = p.Space.Scope()
	if p.Space == tenant.System {
		in = tenant.Everything
		if resource == tenantregistry.Resource {
			in = tenant.Scope(p.Name)
		}
		if resource == roles || resource == roleBindings || resource == namespaces {
			in = tenant.System.Scope()
		}
	}
	// The version is another one before anything of it can be seen.
	s.begin(in, revision)
	defer s.end()
	if err := commit(); err != nil {
		return in, fmt.Errorf("following %s %+v: %w", resource, p, err)
	}
	return in, nil
}

func (s *State) begin(in tenant.Scope, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.changing = in
	if n, one := in.Space(); one {
		s.versions[n] = Version{s.changes, revision}
	} else {
		s.everywhere = Version{s.changes, revision}
	}
}

func (s *State) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changing = ""
	s.changed.Tell()
}

// Version returns the version of the rights of a tenant's users in a space, and false while they are
// being changed. What was made while the version stayed the same was made of one state.
func (s *State) Version(space, userTenant tenant.Name) (Version, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.everywhere
	for _, n := range []tenant.Name{space, userTenant} {
		own := s.versions[n]
		v = Version{max(v.count, own.count), max(v.Revision, own.Revision)}
	}
	stable := s.changing == "" || s.changing != tenant.Everything && s.changing != space.Scope() && s.changing != userTenant.Scope()
	return v, stable
}

// Await waits until the rights of a tenant's users in a space are not being changed, and have another version. Its
// error is that of ctx.
func (s *State) Await(ctx context.Context, space, userTenant tenant.Name, not Version) error {
	return s.changed.Await(ctx, func() bool {
		v, stable := s.Version(space, userTenant)
		return stable && v != not
	})
}
