package tenant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// fakeSpaces is one space that records what is done in it.
type fakeSpaces struct {
	mu    sync.Mutex
	calls []string
	// errors, by call.
	errors     map[string]error
	quota      *corev1.ResourceQuota
	binding    *rbacv1.ClusterRoleBinding
	namespaces []corev1.Namespace
	objects    map[schema.GroupResource][]StoredObject
	// powerless are the administrators whose rights the server has yet to see.
	powerless []string
}

func (s *fakeSpaces) call(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	return s.errors[call]
}

// sorted returns the calls without the order of those made at once.
func (s *fakeSpaces) sorted() []string {
	slices.Sort(s.calls)
	return s.calls
}

func (s *fakeSpaces) In(tenant.Scope) client.Client { return fakeSpace{spaces: s} }

func (s *fakeSpaces) Apply(_ context.Context, _ tenant.Name, o client.Object) error {
	s.binding = o.(*rbacv1.ClusterRoleBinding)
	return s.call("apply binding")
}

// fakeSpace is a client of it.
type fakeSpace struct {
	client.Client
	spaces *fakeSpaces
}

func (f fakeSpace) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	switch o := obj.(type) {
	case *corev1.Namespace:
		return f.spaces.call("create namespace " + o.Name)
	case *corev1.ServiceAccount:
		return f.spaces.call("create service account " + o.Namespace + "/" + o.Name)
	case *corev1.ResourceQuota:
		f.spaces.quota = o
		return f.spaces.call("create quota")
	case *authorizationv1.SubjectAccessReview:
		subject := strings.Join(append(o.Spec.Groups, o.Spec.User), "")
		o.Status.Allowed = !slices.Contains(f.spaces.powerless, subject)
		return f.spaces.errors["review "+subject]
	default:
		return fmt.Errorf("unexpected creation of %T", obj)
	}
}

func (f fakeSpace) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	f.spaces.quota = obj.(*corev1.ResourceQuota)
	return f.spaces.call("update quota")
}

func (f fakeSpace) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.NamespaceList).Items = f.spaces.namespaces
	return f.spaces.call("list namespaces")
}

func (f fakeSpace) Delete(_ context.Context, obj client.Object, _ ...client.DeleteOption) error {
	return f.spaces.call("delete namespace " + obj.(*corev1.Namespace).Name)
}

func (f fakeSpace) SubResource(subresource string) client.SubResourceClient {
	return fakeSubresource{spaces: f.spaces, name: subresource}
}

type fakeSubresource struct {
	client.SubResourceClient
	spaces *fakeSpaces
	name   string
}

func (f fakeSubresource) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	namespace := obj.(*corev1.Namespace)
	return f.spaces.call(fmt.Sprintf("%s namespace %s to %v", f.name, namespace.Name, namespace.Spec.Finalizers))
}

func (s *fakeSpaces) ListObjects(_ context.Context, _ tenant.Name, resource schema.GroupResource) ([]StoredObject, error) {
	return s.objects[resource], s.call("list " + resource.String())
}

func (s *fakeSpaces) DeleteObject(_ context.Context, _ tenant.Name, object StoredObject) error {
	return s.call("delete " + object.String())
}

// fixture is a Reconciler over fakes.
type fixture struct {
	*Reconciler
	spaces *fakeSpaces
	// finalize answers dry runs of the subresource finalize, one answer for each.
	finalize []error
	// publishing is what the copying of published objects waits for.
	publishing string
}

func newFixture(t *testing.T, acme *v1alpha1.Tenant, children ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fixture{spaces: &fakeSpaces{}}
	f.Reconciler = &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(acme).WithStatusSubresource(acme).
			WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: f.updateSubresource}).Build(),
		Children: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(children...).Build(),
		Spaces:   f.spaces,
		Quota:    corev1.ResourceList{"pods": one},
		Publish:  func(context.Context, tenant.Name, types.UID) (string, error) { return f.publishing, nil },
	}
	return f
}

func (f *fixture) updateSubresource(_ context.Context, _ client.Client, subresource string, obj client.Object, options ...client.SubResourceUpdateOption) error {
	applied := (&client.SubResourceUpdateOptions{}).ApplyOptions(options)
	if len(applied.DryRun) == 0 && len(f.finalize) == 0 {
		f.spaces.calls = append(f.spaces.calls, subresource)
		return nil
	}
	if len(f.finalize) == 0 {
		return apierrors.NewBadRequest("unexpected update of " + subresource)
	}
	if slices.Contains(obj.GetFinalizers(), v1alpha1.SpaceFinalizer) || obj.GetResourceVersion() != "" || obj.GetUID() == "" {
		return apierrors.NewBadRequest("unexpected content")
	}
	answer := f.finalize[0]
	f.finalize = f.finalize[1:]
	f.spaces.calls = append(f.spaces.calls, "verify")
	return answer
}

func newTenant(change ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{
		Name: "acme", UID: "1", Generation: 2, Finalizers: []string{v1alpha1.SpaceFinalizer},
	}}
	for _, f := range change {
		f(t)
	}
	return t
}

// notEmpty is how the server refuses to finalize.
func notEmpty(left remaining) error {
	err := apierrors.NewConflict(schema.GroupResource{Resource: "tenants"}, "acme", nil)
	for resource, count := range left {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: v1alpha1.CauseKeysLeft, Field: resource.String(), Message: string(rune('0' + count)),
		})
	}
	return err
}
