package rights

import (
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/server/crd"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// as returns an object as what it must be, zero if it has gone.
func as[T runtime.Object](obj runtime.Object) (T, error) {
	var none T
	if obj == nil {
		return none, nil
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("unexpected object %T", obj)
	}
	return typed, nil
}

// typed returns a setter of objects of one type.
func typed[T runtime.Object](set func(s *State, p storage.ObjectKey, object T) func() error) func(*State, storage.ObjectKey, runtime.Object) func() error {
	return func(s *State, p storage.ObjectKey, obj runtime.Object) func() error {
		object, err := as[T](obj)
		if err != nil {
			return func() error { return err }
		}
		return set(s, p, object)
	}
}

// rbacObject is a pointer to an object of RBAC.
type rbacObject[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// setRBAC tells the index of an object by the names of the flattened view.
func setRBAC[T any, P rbacObject[T]](s *State, p storage.ObjectKey, obj runtime.Object) func() error {
	return func() error {
		flat := P(new(T))
		if obj != nil {
			stored, ok := obj.DeepCopyObject().(P)
			if !ok {
				return fmt.Errorf("unexpected object %T", obj)
			}
			flat = stored
		}
		flat.SetNamespace(p.Namespace)
		flat.SetName(p.Name)
		tenant.FlattenObject(p.Space, flat)
		return s.rbac.Set(flat, obj == nil)
	}
}

func (s *State) setRoleBinding(p storage.ObjectKey, obj runtime.Object) func() error {
	set := setRBAC[rbacv1.RoleBinding](s, p, obj)
	return func() error {
		s.countBinding(p, obj == nil)
		return set()
	}
}

func (s *State) countBinding(p storage.ObjectKey, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.bindings[p]
	if known == !deleted {
		return
	}
	bound := s.bound[p.Space][p.Namespace]
	if deleted {
		delete(s.bindings, p)
		bound--
	} else {
		s.bindings[p] = struct{}{}
		bound++
	}
	if bound == 0 {
		keyed.Delete(s.bound, p.Space, p.Namespace)
	} else {
		keyed.Set(s.bound, p.Space, p.Namespace, bound)
	}
}

// boundIn returns the namespaces of a space that have RoleBindings, sorted.
func (s *State) boundIn(n tenant.Name) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.bound[n]))
}

// setTenant ignores what changes often and decides nothing, such as how much is stored.
func (s *State) setTenant(p storage.ObjectKey, t *v1alpha1.Tenant) func() error {
	n := tenant.Name(p.Name)
	var now tenantState
	if t != nil {
		now = tenantState{uid: t.UID, labels: t.Labels, terminating: t.DeletionTimestamp != nil, suspended: t.Spec.Suspended}
	}
	before := s.tenant(n)
	if before.uid == now.uid && before.terminating == now.terminating && before.suspended == now.suspended && maps.Equal(before.labels, now.labels) {
		return nil
	}
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if now.uid == "" {
			delete(s.tenants, n)
		} else {
			s.tenants[n] = now
		}
		return nil
	}
}

func (s *State) setPolicy(p storage.ObjectKey, policy *v1alpha1.TenantAccessPolicy) func() error {
	return func() error {
		if policy != nil {
			s.grants.Set(policy)
			return nil
		}
		gone := &v1alpha1.TenantAccessPolicy{}
		gone.Name, gone.Annotations = p.Name, map[string]string{tenant.Annotation: string(p.Space)}
		s.grants.Delete(gone)
		return nil
	}
}

func (s *State) setUser(p storage.ObjectKey, u *v1alpha1.User) func() error {
	return func() error {
		if before, known := s.stored[p]; known {
			s.users.Delete(before)
			delete(s.stored, p)
		}
		if u != nil {
			s.users.Set(u)
			s.stored[p] = u
		}
		return nil
	}
}

func (s *State) setNamespace(p storage.ObjectKey, obj runtime.Object) func() error {
	creator := ""
	if obj != nil {
		if accessor, err := meta.Accessor(obj); err == nil {
			creator = accessor.GetLabels()[tenant.CreatedByLabel]
		}
	}
	s.mu.RLock()
	before := s.creators[p.Space][p.Name]
	s.mu.RUnlock()
	if before == creator {
		return nil
	}
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if creator == "" {
			keyed.Delete(s.creators, p.Space, p.Name)
		} else {
			keyed.Set(s.creators, p.Space, p.Name, creator)
		}
		return nil
	}
}

// createdBy returns the namespaces of a space that Users with some UIDs have created.
func (s *State) createdBy(n tenant.Name, uids sets.Set[string]) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var names []string
	for name, uid := range s.creators[n] {
		if uids.Has(uid) {
			names = append(names, name)
		}
	}
	return names
}

func (s *State) setDefinition(p storage.ObjectKey, d *apiextensionsv1.CustomResourceDefinition) func() error {
	resource := schema.ParseGroupResource(p.Name)
	var now *definition
	if d != nil {
		now = newDefinition(d)
	}
	s.mu.RLock()
	before, known := s.definitions[p.Space][resource]
	s.mu.RUnlock()
	if known == (now != nil) && (now == nil || *now == before) {
		return nil
	}
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if now == nil {
			keyed.Delete(s.definitions, p.Space, resource)
		} else {
			keyed.Set(s.definitions, p.Space, resource, *now)
		}
		return nil
	}
}

func newDefinition(d *apiextensionsv1.CustomResourceDefinition) *definition {
	established := slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	served := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Served })
	_, marked := d.Labels[tenant.PublishedDefinitionLabel]
	return &definition{
		serves:    established && served,
		published: marked && crd.IsShown(d),
		was:       marked,
	}
}
