package suite

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

const (
	// StartTimeout is what a BeforeSuite gets to start Tenantry and create tenants.
	StartTimeout = 2 * time.Minute

	timeout = time.Minute
	poll    = 50 * time.Millisecond
)

// Environment is a running Tenantry.
type Environment struct {
	*env.Environment
	tenants atomic.Int32
}

// Run runs the specs of a package.
func Run(t *testing.T, name string) {
	t.Helper()
	RegisterFailHandler(Fail)
	RunSpecs(t, name)
}

// Tenants returns the environment of a package that needs nothing special. Before its specs run,
// Tenantry is started and has these tenants.
func Tenants(names ...tenant.Name) *Environment {
	e := &Environment{}
	BeforeSuite(func(ctx SpecContext) {
		e.start(ctx)
		e.CreateTenants(ctx, names...)
	}, NodeTimeout(StartTimeout), Offset(1))
	return e
}

// Start runs Tenantry until the suite ends and returns when the namespaces of the
// system space are there, which a controller makes some time after the server is
// ready. Changes adjust the options. From then on Eventually polls every 50 ms for a
// minute, unless the suite sets something else.
func Start(ctx context.Context, changes ...func(*standalone.Options)) *Environment {
	GinkgoHelper()
	e := &Environment{}
	e.start(ctx, changes...)
	return e
}

func (e *Environment) start(ctx context.Context, changes ...func(*standalone.Options)) {
	GinkgoHelper()
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(poll)
	started, err := env.Start(ctx, changes...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(started.Stop)
	e.Environment = started
	Eventually(func() error {
		_, err := e.Client(tenant.System).CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	}).Should(Succeed())
}

// CreateTenants creates tenants for the whole suite and waits until they are ready.
func (e *Environment) CreateTenants(ctx context.Context, names ...tenant.Name) {
	GinkgoHelper()
	for _, n := range names {
		Expect(e.CreateTenant(ctx, n)).To(Succeed())
	}
}

// NewTenant creates a tenant whose name nobody else has, and has it deleted when the
// spec ends.
func (e *Environment) NewTenant(ctx context.Context, prefix string) tenant.Name {
	GinkgoHelper()
	n := tenant.Name(fmt.Sprintf("%s-%d", prefix, e.tenants.Add(1)))
	e.CreateTenants(ctx, n)
	DeferCleanup(func(ctx SpecContext) { e.requestDeletion(ctx, n) })
	return n
}

// DeleteTenant deletes a tenant, if it is still there, and waits until it is gone.
func (e *Environment) DeleteTenant(ctx context.Context, n tenant.Name) {
	GinkgoHelper()
	e.requestDeletion(ctx, n)
	Eventually(func() error {
		_, err := e.Tenants().Get(ctx, n.String(), metav1.GetOptions{})
		return err
	}).Should(Satisfy(apierrors.IsNotFound))
}

func (e *Environment) requestDeletion(ctx context.Context, n tenant.Name) {
	GinkgoHelper()
	if err := e.Tenants().Delete(ctx, n.String(), metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// SetSpec sets a field of a Tenant's spec to a value in JSON.
func (e *Environment) SetSpec(ctx context.Context, n tenant.Name, field, value string) error {
	patch := fmt.Appendf(nil, `{"spec":{%q:%s}}`, field, value)
	_, err := e.Tenants().Patch(ctx, n.String(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// Tenants returns a client of the Tenants.
func (e *Environment) Tenants() dynamic.ResourceInterface {
	GinkgoHelper()
	return Dynamic(e.Config(tenant.System)).Resource(v1alpha1.GroupVersion.WithResource("tenants"))
}

// Stored returns the number and the bytes of what etcd has with the tenant in its
// key, but for events and the quota, as the tenant is charged for it.
func (e *Environment) Stored(ctx context.Context, n tenant.Name) (objects, bytes int64) {
	GinkgoHelper()
	response, err := e.Etcd().Get(ctx, "/registry/", clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	for _, kv := range response.Kvs {
		key := string(kv.Key)
		if strings.Contains(key, "/"+n.String()+"/") && !strings.HasPrefix(key, "/registry/events/") &&
			!strings.HasSuffix(key, "/default/"+v1alpha1.TenantQuota) {
			objects++
			bytes += int64(len(kv.Value))
		}
	}
	return objects, bytes
}
