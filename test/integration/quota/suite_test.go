// Package quota tests that tenants are held to their quota: acceptance lines 31 to 33.
package quota

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry *suite.Environment

func TestQuota(t *testing.T) {
	suite.Run(t, "Quota")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx, func(o *standalone.Options) { o.Server.QuotaSettle = time.Second })
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond) // some specs do the same a thousand times
}, NodeTimeout(suite.StartTimeout))

// space is a tenant's, with clients of its administrator.
type space struct {
	*kubernetes.Clientset
	name    tenant.Name
	dynamic dynamic.Interface
}

// limits of a quota, by name.
type limits map[corev1.ResourceName]string

func (l limits) list() corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, amount := range l {
		list[name] = resource.MustParse(amount)
	}
	return list
}

// newSpace creates a tenant with a quota of its own, if it is given one.
func newSpace(ctx context.Context, quota limits) *space {
	GinkgoHelper()
	name := tenantry.NewTenant(ctx, "quota")
	s := &space{name: name, Clientset: tenantry.Client(name), dynamic: suite.Dynamic(tenantry.Config(name))}
	if quota != nil {
		s.limit(ctx, quota)
	}
	return s
}

// admin returns a system administrator's client of the space.
func (s *space) admin() *kubernetes.Clientset {
	GinkgoHelper()
	return suite.Client(tenantry.In(s.name, tenantry.Config(tenant.System)))
}

// limit changes the tenant's quota and waits for it to be in force.
func (s *space) limit(ctx context.Context, quota limits) {
	GinkgoHelper()
	patch := []byte(`[{"op":"add","path":"/spec","value":{"quota":` + jsonOf(quota) + `}}]`)
	_, err := tenantry.Tenants().Patch(ctx, s.name.String(), types.JSONPatchType, patch, metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func(g Gomega) {
		q := s.quota(ctx)
		g.Expect(q.Status.Hard).To(equalAmounts(quota))
		g.Expect(q.Status.Used).To(HaveLen(len(quota)))
	}).Should(Succeed())
}

// quota reads the tenant's quota as its users do.
func (s *space) quota(ctx context.Context) *corev1.ResourceQuota {
	GinkgoHelper()
	q, err := s.CoreV1().ResourceQuotas(metav1.NamespaceDefault).Get(ctx, v1alpha1.TenantQuota, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return q
}

// used is what the tenant uses of one thing.
func (s *space) used(ctx context.Context, name corev1.ResourceName) int64 {
	GinkgoHelper()
	amount := s.quota(ctx).Status.Used[name]
	return amount.Value()
}

// newNamespace creates a namespace in which pods can be created.
func (s *space) newNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := s.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := s.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	}).Should(Succeed())
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func (s *space) createPod(ctx context.Context, namespace, name string) error {
	_, err := s.CoreV1().Pods(namespace).Create(ctx, newPod(name), metav1.CreateOptions{})
	return err
}

// now deletes without a grace period.
var now = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

func jsonOf(quota limits) string {
	text := "{"
	for name, amount := range quota {
		if text != "{" {
			text += ","
		}
		text += fmt.Sprintf("%q:%q", name, amount)
	}
	return text + "}"
}

// equalAmounts matches a list of amounts.
func equalAmounts(want limits) OmegaMatcher {
	return WithTransform(func(list corev1.ResourceList) map[corev1.ResourceName]string {
		got := map[corev1.ResourceName]string{}
		for name, amount := range list {
			got[name] = amount.String()
		}
		return got
	}, Equal(map[corev1.ResourceName]string(want)))
}

// beRefused matches the refusal of what exceeds the tenant's quota.
func beRefused() OmegaMatcher {
	return And(beForbidden(), MatchError(ContainSubstring("exceeded quota: "+v1alpha1.TenantQuota)))
}

func beForbidden() OmegaMatcher { return Satisfy(apierrors.IsForbidden) }
