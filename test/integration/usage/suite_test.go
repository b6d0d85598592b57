// Package usage tests what Tenants and metrics say of what tenants use.
package usage

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

const (
	startTimeout = 2 * time.Minute
	specTimeout  = 30 * time.Second
	poll         = 50 * time.Millisecond
	// shown is how many tenants have series of their own.
	shown = 2
)

var environment *env.Environment

func TestUsage(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(specTimeout)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "Usage")
}

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	environment, err = env.Start(ctx, func(o *standalone.Options) {
		o.Usage = &usage.Options{Tenants: shown, Period: poll}
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
}, NodeTimeout(startTimeout))

// space is a tenant's, with clients of its administrator.
type space struct {
	*kubernetes.Clientset
	name   tenant.Name
	config *rest.Config
}

var tenants atomic.Int32

// newSpace creates a tenant, which is deleted after the spec.
func newSpace(ctx context.Context) *space {
	GinkgoHelper()
	name := tenant.Name(fmt.Sprintf("usage-%d", tenants.Add(1)))
	Expect(environment.CreateTenant(ctx, name)).To(Succeed())
	config, err := environment.UserConfig(name, "admin")
	Expect(err).NotTo(HaveOccurred())
	s := &space{name: name, config: config, Clientset: newClient(config)}
	DeferCleanup(s.delete)
	return s
}

func (s *space) delete(ctx SpecContext) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(tenantResource().Delete(ctx, s.name.String(), metav1.DeleteOptions{}))).To(Succeed())
	Eventually(func() error {
		_, err := tenantResource().Get(ctx, s.name.String(), metav1.GetOptions{})
		return err
	}).ShouldNot(Succeed())
}

func newClient(config *rest.Config) *kubernetes.Clientset {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

func admin() *rest.Config {
	GinkgoHelper()
	config, err := environment.Admin()
	Expect(err).NotTo(HaveOccurred())
	return config
}

func tenantResource() dynamic.ResourceInterface {
	GinkgoHelper()
	client, err := dynamic.NewForConfig(admin())
	Expect(err).NotTo(HaveOccurred())
	return client.Resource(v1alpha1.GroupVersion.WithResource("tenants"))
}

// read returns the Tenant.
func (s *space) read(ctx context.Context) *v1alpha1.Tenant {
	GinkgoHelper()
	object, err := tenantResource().Get(ctx, s.name.String(), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	t := &v1alpha1.Tenant{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, t)).To(Succeed())
	return t
}

// amount is what a space has stored.
type amount struct{ Objects, Bytes int64 }

// inEtcd is what etcd holds with the tenant in its key, but for events and the quota.
func (s *space) inEtcd(ctx context.Context) amount {
	GinkgoHelper()
	response, err := environment.Etcd().Get(ctx, "/registry/", clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	var found amount
	for _, kv := range response.Kvs {
		key := string(kv.Key)
		if strings.Contains(key, "/"+s.name.String()+"/") && !strings.HasPrefix(key, "/registry/events/") &&
			!strings.HasSuffix(key, "/default/"+v1alpha1.TenantQuota) {
			found.Objects++
			found.Bytes += int64(len(kv.Value))
		}
	}
	return found
}

// settled waits until the Tenant says what etcd holds, and returns it.
func (s *space) settled(ctx context.Context) amount {
	GinkgoHelper()
	var found amount
	Eventually(func(g Gomega) {
		found = s.inEtcd(ctx)
		told := s.read(ctx).Status.Usage
		g.Expect(told).NotTo(BeNil())
		g.Expect(amount{told.Objects, told.StoredBytes}).To(Equal(found))
	}).Should(Succeed())
	return found
}

// fill creates config maps of some size.
func (s *space) fill(ctx context.Context, count, size int) {
	GinkgoHelper()
	for i := range count {
		_, err := s.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("filled-%d", i)},
			Data:       map[string]string{"x": strings.Repeat("x", size)},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

// metrics returns the series of a metric of tenants, by their labels.
func metrics(ctx context.Context, name string) map[string]int64 {
	GinkgoHelper()
	text, err := newClient(admin()).RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	Expect(err).NotTo(HaveOccurred())
	found := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		labels, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if labels, ours := strings.CutPrefix(labels, name+"{"); ok && ours {
			parsed, err := strconv.ParseFloat(value, 64)
			Expect(err).NotTo(HaveOccurred())
			found[labels] = int64(parsed)
		}
	}
	return found
}

// labeled returns the label of a tenant.
func labeled(n tenant.Name) string { return fmt.Sprintf("tenant=%q", n) }

func sum(series map[string]int64) (total int64) {
	for value := range maps.Values(series) {
		total += value
	}
	return total
}
