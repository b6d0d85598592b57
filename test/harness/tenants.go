package harness

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Tenants is a client of the Tenants, PublishedObjects and KeystoneSyncs of a server, and of the
// Users of a space.
type Tenants struct{ client.WithWatch }

// NewTenants returns a client with the credentials of a system administrator.
func NewTenants(config *rest.Config) (Tenants, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return Tenants{}, err
	}
	mapper := meta.NewDefaultRESTMapper(nil) // which asks for no discovery
	for _, kind := range []string{"Tenant", "PublishedObject", "KeystoneSync", "User"} {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper, Log: klog.Background()})
	return Tenants{c}, err
}

// Create creates a tenant.
func (t Tenants) Create(ctx context.Context, name string, spec v1alpha1.TenantSpec) error {
	return t.WithWatch.Create(ctx, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
}

// CreateReady creates a tenant and waits as Await does.
func (t Tenants) CreateReady(ctx context.Context, name string, period, timeout time.Duration) error {
	if err := t.Create(ctx, name, v1alpha1.TenantSpec{}); err != nil {
		return fmt.Errorf("creating tenant %q: %w", name, err)
	}
	return t.Await(ctx, name, period, timeout)
}

// Delete requests the deletion of a tenant.
func (t Tenants) Delete(ctx context.Context, name string) error {
	return t.WithWatch.Delete(ctx, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Await waits until users of a tenant can work in its space and, if it has one, its quota
// is in force.
func (t Tenants) Await(ctx context.Context, name string, period, timeout time.Duration) error {
	err := wait.PollUntilContextTimeout(ctx, period, timeout, true, func(ctx context.Context) (bool, error) {
		var found v1alpha1.Tenant
		if err := t.Get(ctx, client.ObjectKey{Name: name}, &found); err != nil {
			return false, err
		}
		return meta.IsStatusConditionTrue(found.Status.Conditions, v1alpha1.ConditionReady) &&
			(len(found.Spec.Quota) == 0 || found.Status.Quota != nil && len(found.Status.Quota.Used) > 0), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for tenant %q: %w", name, err)
	}
	return nil
}

// NewSpace creates a tenant, if it is not there, and returns the config for its space when
// that can be used.
func NewSpace(ctx context.Context, config *rest.Config, name string, spec v1alpha1.TenantSpec) (*rest.Config, error) {
	tenants, err := NewTenants(config)
	if err != nil {
		return nil, err
	}
	if err := client.IgnoreAlreadyExists(tenants.Create(ctx, name, spec)); err != nil {
		return nil, fmt.Errorf("creating tenant %q: %w", name, err)
	}
	return InSpace(config, name), tenants.Await(ctx, name, 100*time.Millisecond, time.Minute)
}

// InSpace returns a config with the same credentials for the space of a tenant.
func InSpace(config *rest.Config, name string) *rest.Config {
	in := rest.CopyConfig(config)
	in.Host += tenant.Name(name).Root()
	return in
}
