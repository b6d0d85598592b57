package user

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/follow"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("users").GroupResource()

// REST serves Users.
type REST struct {
	definition.Confirmed
	// Status serves the subresource status.
	Status definition.StatusREST
	index  *Index
}

// NewREST returns the storage of Users, which index is to know.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter, a authorizer.UnconditionalAuthorizer, index *Index) (*REST, error) {
	common, table, err := definition.NewStrategy(scheme, crd.Users, parts)
	if err != nil {
		return nil, err
	}
	s := strategy{Strategy: common, index: index}
	store, err := definition.NewStore[v1alpha1.User, v1alpha1.UserList](options, Resource, "user", s, table)
	if err != nil {
		return nil, err
	}
	follow.Await(store, &index.seen)
	return &REST{
		definition.Confirmed{Store: store, Confirm: escalation{a}.confirm},
		definition.NewStatusREST(store, definition.NewStatusStrategy(s, parts)), index,
	}, nil
}

// Follow tells the index of the Users of every space until ctx ends.
func (r *REST) Follow(ctx context.Context) {
	follow.Run(ctx, "users", tenant.Everything, r.Store, r.index, &r.index.seen)
}

// Delete implements rest.GracefulDeleter. What the user creates from then on is not by the User.
func (r *REST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	obj, gone, err := r.Store.Delete(ctx, name, validate, options)
	if err == nil {
		follow.Wait(obj, &r.index.seen)
	}
	return obj, gone, err
}

// strategy are the rules for the main resource.
type strategy struct {
	definition.Strategy[v1alpha1.User, v1alpha1.UserStatus]
	index *Index
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.Strategy.PrepareForCreate(ctx, obj)
	u := obj.(*v1alpha1.User)
	setDefaults(u)
	hold(u)
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	u, previous := obj.(*v1alpha1.User), old.(*v1alpha1.User)
	setDefaults(u)
	s.Strategy.PrepareForUpdate(ctx, obj, old)
	// Only the controller lets a User go, so that none is gone before its rights are.
	if slices.Contains(previous.Finalizers, v1alpha1.UserFinalizer) && !tenant.ByPublisher(ctx) {
		hold(u)
	}
}

// setDefaults fills in the policy, which is shown.
func setDefaults(u *v1alpha1.User) {
	u.Spec.NamespacePolicy = cmp.Or(u.Spec.NamespacePolicy, v1alpha1.UserNamespacesRetain)
}

func hold(u *v1alpha1.User) {
	if !slices.Contains(u.Finalizers, v1alpha1.UserFinalizer) {
		u.Finalizers = append(u.Finalizers, v1alpha1.UserFinalizer)
	}
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	u := obj.(*v1alpha1.User)
	errs := s.Rules.Validate(ctx, u, nil)
	for _, message := range validation.NameIsDNSSubdomain(u.Name, false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), u.Name, message))
	}
	n, err := tenant.SpaceFrom(ctx)
	switch {
	case err != nil:
		errs = append(errs, field.InternalError(nil, err))
	case !n.IsSpace():
		errs = append(errs, field.Forbidden(field.NewPath("metadata"), "a User belongs into the space of its tenant; "+
			"namespaces of the system space are the platform's, and rights there are given by RBAC"))
	default:
		if other, found := s.index.Find(n, u.Spec.Username); found && other.Name != u.Name {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "username"), "it is that of User "+other.Name+"; delete that one first"))
		}
	}
	return errs
}

// parts are those of a User.
var parts = definition.Parts[v1alpha1.User, v1alpha1.UserStatus]{
	Spec:   func(u *v1alpha1.User) any { return &u.Spec },
	Status: func(u *v1alpha1.User) *v1alpha1.UserStatus { return &u.Status },
}
