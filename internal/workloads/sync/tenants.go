package sync

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// newTenants returns an informer of Tenants, of which it keeps what pods need, and a client of them. config names the
// system space.
func newTenants(config *rest.Config) (cache.SharedIndexInformer, getter[v1alpha1.Tenant], error) {
	client, err := newTypedClient(config, v1alpha1.GroupVersion, v1alpha1.AddToScheme)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the client of Tenants: %w", err)
	}
	lw := cache.NewListWatchFromClient(client, "tenants", metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedIndexInformer(lw, &v1alpha1.Tenant{}, 0, nil)
	live := gentype.NewClient("tenants", client, metav1.ParameterCodec, metav1.NamespaceNone, func() *v1alpha1.Tenant { return &v1alpha1.Tenant{} })
	return informer, live, informer.SetTransform(slimTenant)
}

// newTypedClient returns a client of the types of a version, which add adds to a scheme, in JSON.
func newTypedClient(config *rest.Config, version schema.GroupVersion, add func(*runtime.Scheme) error) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.QPS = -1
	return rest.RESTClientFor(config)
}

func slimTenant(obj any) (any, error) {
	if t, ok := obj.(*v1alpha1.Tenant); ok {
		return &v1alpha1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Name: t.Name, UID: t.UID, ResourceVersion: t.ResourceVersion, DeletionTimestamp: t.DeletionTimestamp},
			Spec:       v1alpha1.TenantSpec{Workloads: t.Spec.Workloads, Quota: t.Spec.Quota}, // which names devices
		}, nil
	}
	return obj, nil
}

// tenantNamed returns a Tenant, nil if there is none.
func (s *syncer) tenantNamed(n tenant.Name) (*v1alpha1.Tenant, error) {
	return tenantIn(s.tenants, n)
}

// tenantIn returns a Tenant of a cache, nil if it has none.
func tenantIn(tenants cache.SharedIndexInformer, n tenant.Name) (*v1alpha1.Tenant, error) {
	return cached[v1alpha1.Tenant](tenants, string(n))
}

// rulesFor returns what the pods, Services and Ingresses of a tenant are held to: one that there is not may have
// nothing.
func (s *syncer) rulesFor(n tenant.Name) translate.Rules {
	t, err := s.tenantNamed(n)
	if err != nil || t == nil {
		return translate.Rules{}
	}
	return rulesOf(t)
}
