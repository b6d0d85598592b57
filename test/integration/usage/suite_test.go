// Package usage tests what Tenants and metrics say of what tenants use.
package usage

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	specTimeout = 30 * time.Second
	// shown is how many tenants have series of their own.
	shown = 2
)

var tenantry *suite.Environment

func TestUsage(t *testing.T) {
	suite.Run(t, "Usage")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		o.Server.Usage = usage.Options{Tenants: shown, Period: 50 * time.Millisecond}
	})
}, NodeTimeout(suite.StartTimeout))

// space is a tenant's, with a client of its administrator.
type space struct {
	*kubernetes.Clientset
	name tenant.Name
}

// newSpace creates a tenant, which is gone after the spec.
func newSpace(ctx context.Context) *space {
	GinkgoHelper()
	name := tenantry.NewTenant(ctx, "usage")
	DeferCleanup(func(ctx SpecContext) { tenantry.DeleteTenant(ctx, name) })
	return &space{name: name, Clientset: tenantry.Client(name)}
}

// read returns the Tenant.
func (s *space) read(ctx context.Context) *v1alpha1.Tenant {
	GinkgoHelper()
	object, err := tenantry.Tenants().Get(ctx, s.name.String(), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	t := &v1alpha1.Tenant{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, t)).To(Succeed())
	return t
}

// amount is what a space has stored.
type amount struct{ Objects, Bytes int64 }

func (s *space) inEtcd(ctx context.Context) amount {
	GinkgoHelper()
	objects, bytes := tenantry.Stored(ctx, s.name)
	return amount{objects, bytes}
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
	text, err := tenantry.Client(tenant.System).RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
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
