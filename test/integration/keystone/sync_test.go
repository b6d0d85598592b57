// Package keystone tests the synchronisation of a Keystone, which is a fake, in a whole
// Tenantry. What a real one does is tested in test/keystone.
package keystone

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

const (
	acme = "587964a412e5462c82cf749d82d98e7f"
	web  = "6bfde9b0e82b4c0bb40b84496b85173e"
	gone = "e8b8068e9a36456eaf3a9c813a90bdd8"
	role = "1546ed26aa3a4f9498eaace8d0b526a8"

	space     = tenant.Name("acme-587964a412e5")
	namespace = "web-6bfde9b0e82b"
	binding   = "keystone:project:" + web + ":" + role
)

var (
	tenantry *suite.Environment
	keystone *fake.Keystone
	objects  harness.Tenants
)

func TestKeystone(t *testing.T) {
	suite.Run(t, "Synchronisation of a Keystone")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	keystone = fake.New()
	DeferCleanup(keystone.Close)
	keystone.Set("roles", fake.Ref(role))
	keystone.Set("domains", fake.Domain(acme, "acme", true))
	keystone.Set("projects", fake.Project(web, "web", acme, true), fake.Project(gone, "gone", acme, true))
	dir := GinkgoT().TempDir()
	config := "apiVersion: config.tenantry.io/v1alpha1\nkind: KeystoneConfiguration\nurl: " + keystone.URL + "/v3\ncloudsFile: clouds.yaml\ncloud: asker\npasswords: Accept\n"
	Expect(os.WriteFile(filepath.Join(dir, "clouds.yaml"), keystone.Clouds(), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "keystone.yaml"), []byte(config), 0o600)).To(Succeed())
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		o.Server.Authentication.KeystoneConfig = filepath.Join(dir, "keystone.yaml")
	})
	var err error
	objects, err = harness.NewTenants(tenantry.Config(tenant.System))
	Expect(err).NotTo(HaveOccurred())
}, NodeTimeout(suite.StartTimeout))

// as returns a client with a token of Keystone in the space.
func as(token string) *kubernetes.Clientset {
	config := rest.AnonymousClientConfig(tenantry.Config(tenant.System))
	config.BearerToken = token
	return suite.Client(tenantry.In(space, config))
}

// current returns the KeystoneSync.
func current(ctx context.Context) *v1alpha1.KeystoneSync {
	GinkgoHelper()
	s := &v1alpha1.KeystoneSync{}
	Expect(objects.Get(ctx, client.ObjectKey{Name: "cloud"}, s)).To(Succeed())
	return s
}

// again has it run now and returns its status.
func again(ctx context.Context, spec string) v1alpha1.KeystoneSyncStatus {
	GinkgoHelper()
	s := current(ctx)
	Expect(objects.Patch(ctx, s, client.RawPatch(types.MergePatchType, []byte(spec)))).To(Succeed())
	Eventually(func() int64 { return current(ctx).Status.ObservedGeneration }).Should(Equal(s.Generation))
	return current(ctx).Status
}

// first returns the first of two.
func first(status int, _ string) int { return status }

// interval returns a change of the spec that means nothing.
var interval = func() func() string {
	minutes := 60
	return func() string { minutes++; return fmt.Sprintf(`{"spec":{"interval":"%dm"}}`, minutes) }
}()

var _ = Describe("A KeystoneSync", Ordered, func() {
	admin := func() *kubernetes.Clientset { return as(fake.Token(1)) }

	It("makes what tokens enter", func(ctx SpecContext) {
		Expect(objects.WithWatch.Create(ctx, &v1alpha1.KeystoneSync{ObjectMeta: metav1.ObjectMeta{Name: "cloud"}, Spec: v1alpha1.KeystoneSyncSpec{
			Interval: &metav1.Duration{Duration: time.Hour}, Domains: v1alpha1.KeystoneDomains{Names: []string{"acme"}}, TenantAdminRoleID: role,
			RoleMappings: []v1alpha1.KeystoneRoleMapping{{RoleID: role, Scope: v1alpha1.KeystoneScopeProject, ClusterRole: "edit"}},
		}})).To(Succeed())
		Eventually(func() []string { return current(ctx).Status.Planned }).Should(HaveLen(5))
		Expect(again(ctx, `{"spec":{"mode":"Sync"}}`).Changes).To(Equal(int32(5)))
		keystone.Know(fake.Token(1), fake.Body("alice", fake.InDomain(acme, role)))
		keystone.Know(fake.Token(2), fake.Body("bob", fake.InProject(web, acme, role)))
		Eventually(func() error { _, err := admin().CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err }).Should(Succeed())
		_, err := as(fake.Token(2)).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = as(fake.Token(2)).CoreV1().Pods("gone-e8b8068e9a36").List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		Expect(again(ctx, interval()).Changes).To(BeZero())
	})

	It("lets passwords in where the URL names the Tenant of the user's domain", func(ctx SpecContext) {
		keystone.SetPeople(fake.Person{Domain: acme, Name: "carol", Password: fake.Password + "-carol",
			Projects: []map[string]any{fake.Project(web, "web", acme, true)}, Assignments: []map[string]any{fake.Assignment(role, web)}})
		status := func(n tenant.Name, password string) (int, string) {
			config := tenantry.In(n, rest.AnonymousClientConfig(tenantry.Config(tenant.System)))
			config.Username, config.Password = "carol", password
			client, err := rest.HTTPClientFor(config)
			Expect(err).NotTo(HaveOccurred())
			answer, err := client.Get(config.Host + "/api/v1/namespaces/" + namespace + "/pods")
			Expect(err).NotTo(HaveOccurred())
			defer answer.Body.Close()
			return answer.StatusCode, answer.Header.Get("Retry-After")
		}
		Expect(first(status(space, fake.Password+"-carol"))).To(Equal(http.StatusOK))
		Expect(first(status("other", fake.Password+"-carol"))).To(Equal(http.StatusUnauthorized))
		before := keystone.Attempts()
		for range 20 {
			Expect(first(status(space, fake.Password+"-wrong"))).To(Equal(http.StatusUnauthorized))
		}
		Expect(keystone.Attempts()).To(Equal(before + 1))
		var last int
		var after string
		for n := range 10 {
			last, after = status(space, fmt.Sprint(fake.Password, n))
		}
		Expect(last).To(Equal(http.StatusTooManyRequests))
		Expect(after).NotTo(BeEmpty())
		Expect(keystone.Attempts()).To(BeNumerically("<", before+7))
		Expect(first(status(space, fake.Password+"-carol"))).To(Equal(http.StatusOK), "it is remembered")
	})

	It("has Tenants that name a Keystone and a domain, or nothing that could be one", func(ctx SpecContext) {
		t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: space.String()}}
		for _, mark := range []string{`{"keystone":"a b","domainID":"d"}`, `{"keystone":"default","domainID":"a/b"}`, `{"keystone":"","domainID":"d"}`, `{"keystone":"default","domainID":""}`} {
			err := objects.Status().Patch(ctx, t, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"keystone":%s}}`, mark)))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", mark, err)
		}
	})

	It("has marks that administrators of the Tenant cannot write", func(ctx SpecContext) {
		_, err := admin().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "forged", Labels: map[string]string{tenant.KeystoneLabel: tenant.KeystoneProject}}}, metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		for _, patch := range []string{`{"metadata":{"labels":{"tenantry.io/keystone":null}}}`, `{"metadata":{"annotations":{"tenantry.io/keystone-id":null}}}`} {
			_, err = admin().CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", patch, err)
		}
		_, err = admin().RbacV1().RoleBindings(namespace).Patch(ctx, binding, types.MergePatchType, []byte(`{"metadata":{"labels":{"tenantry.io/keystone":null}}}`), metav1.PatchOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	})

	It("repairs bindings, whatever stands in their place", func(ctx SpecContext) {
		_, err := admin().RbacV1().RoleBindings(namespace).Patch(ctx, binding, types.MergePatchType, []byte(`{"subjects":[]}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again(ctx, interval()).Changes).To(Equal(int32(1)))
		found, err := admin().RbacV1().RoleBindings(namespace).Get(ctx, binding, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Subjects).To(ConsistOf(HaveField("Name", binding)))
		Expect(admin().RbacV1().RoleBindings(namespace).Delete(ctx, binding, metav1.DeleteOptions{})).To(Succeed())
		found.ObjectMeta, found.RoleRef.Name = metav1.ObjectMeta{Name: binding, Finalizers: []string{"example.com/held"}}, "view"
		_, err = admin().RbacV1().RoleBindings(namespace).Create(ctx, found, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again(ctx, interval()).Changes).To(Equal(int32(1)))
		found, err = admin().RbacV1().RoleBindings(namespace).Get(ctx, binding, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.RoleRef.Name).To(Equal("edit"))
		Expect(again(ctx, interval()).Changes).To(BeZero())
	})

	It("brings the template to its Tenants, and warns of ClusterRoles that are not there", func(ctx SpecContext) {
		quota := func() map[corev1.ResourceName]resource.Quantity {
			t := &v1alpha1.Tenant{}
			Expect(objects.Get(ctx, client.ObjectKey{Name: space.String()}, t)).To(Succeed())
			return t.Spec.Quota
		}
		Expect(again(ctx, `{"spec":{"tenantTemplate":{"quota":{"pods":"10"},"nodePlacement":{"mode":"Disabled"}}}}`).Changes).To(Equal(int32(1)))
		Expect(quota()).To(HaveKeyWithValue(corev1.ResourcePods, resource.MustParse("10")))
		Expect(again(ctx, interval()).Changes).To(BeZero())
		err := objects.Patch(ctx, current(ctx), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"tenantTemplate":{"quota":{"pots":"1"}}}}`)))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(again(ctx, `{"spec":{"tenantTemplate":null}}`).Changes).To(Equal(int32(1)))
		Expect(quota()).To(BeEmpty())
		status := again(ctx, `{"spec":{"roleMappings":[{"roleID":"`+role+`","scope":"Project","clusterRole":"edit"},{"roleID":"`+role+`","scope":"Domain","clusterRole":"absent"}]}}`)
		Expect(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionClusterRolesMissing)).To(And(
			HaveField("Status", metav1.ConditionTrue), HaveField("Message", ContainSubstring(`"absent"`))))
		status = again(ctx, `{"spec":{"roleMappings":[{"roleID":"`+role+`","scope":"Project","clusterRole":"edit"}]}}`)
		Expect(meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionClusterRolesMissing)).To(BeTrue())
	})

	It("takes bindings away that somebody holds", func(ctx SpecContext) {
		bindings := admin().RbacV1().RoleBindings(namespace)
		_, err := bindings.Patch(ctx, binding, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/held"]}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		keystone.Set("projects", fake.Project(web, "web", acme, false), fake.Project(gone, "gone", acme, true))
		again(ctx, interval())
		_, err = bindings.Get(ctx, binding, metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		keystone.Set("projects", fake.Project(web, "web", acme, true), fake.Project(gone, "gone", acme, true))
		again(ctx, interval())
		_, err = bindings.Get(ctx, binding, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(again(ctx, interval()).Changes).To(BeZero())
	})

	It("takes away what is gone when that is acknowledged, and suspends", func(ctx SpecContext) {
		keystone.Set("projects", fake.Project(web, "web", acme, true))
		keystone.Set("domains", fake.Domain(acme, "acme", false))
		status := again(ctx, `{"spec":{"deletion":{"namespaces":{"policy":"Delete","gracePeriod":"0s"}}}}`)
		Expect(meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionGuardTripped)).To(BeTrue())
		Expect(again(ctx, fmt.Sprintf(`{"spec":{"guard":{"acknowledged":%q}}}`, status.Removed.Token)).Changes).To(Equal(int32(2)))
		again(ctx, interval())
		t := &v1alpha1.Tenant{}
		Expect(objects.Get(ctx, client.ObjectKey{Name: space.String()}, t)).To(Succeed())
		Expect(t.Spec.Suspended).To(BeTrue())
		_, err := as(fake.Token(2)).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).To(MatchError(ContainSubstring("disabled in Keystone")))
		Eventually(func() error {
			_, err := suite.Client(tenantry.In(space, tenantry.Config(tenant.System))).CoreV1().Namespaces().Get(ctx, "gone-e8b8068e9a36", metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
		keystone.Set("domains", fake.Domain(acme, "renamed", true))
		again(ctx, `{"spec":{"domains":{"ids":["`+acme+`"],"names":null}}}`)
		Expect(objects.Get(ctx, client.ObjectKey{Name: space.String()}, t)).To(Succeed())
		Expect(t.Spec.Suspended).To(BeFalse())
		Expect(t.Annotations).To(HaveKeyWithValue("tenantry.io/keystone-name", "renamed"))
	})

	It("is counted, without a secret", func(ctx SpecContext) {
		text, err := tenantry.Client(tenant.System).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(`tenantry_keystone_sync_runs_total{reason="Synced",sync="cloud"}`))
		Expect(strings.Contains(string(text), fake.Password)).To(BeFalse())
	})
})
