package audit

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	annotationUserTenant = "tenantry.io/user-tenant"
	annotationTenant     = "tenantry.io/tenant"
)

var _ = Describe("Tenant.spec.auditPolicy", func() {
	// list sends a request that may be refused.
	list := func(ctx SpecContext) func(*kubernetes.Clientset) {
		return func(client *kubernetes.Clientset) {
			_, _ = client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		}
	}
	// as returns the config of an administrator.
	as := func(n tenant.Name) func() *rest.Config {
		return func() *rest.Config { return tenantry.Config(n) }
	}
	anonymous := func() *rest.Config { return rest.AnonymousClientConfig(tenantry.Config(tenant.System)) }

	DescribeTable("decides what is logged", func(ctx SpecContext, config func() *rest.Config, space tenant.Name, level auditv1.Level, code int, own, target string) {
		sender := tenantry.ShortPath(config())
		if space != "" {
			sender = tenantry.In(space, sender)
		}
		events := logged(ctx, sender, list(ctx))
		if level == auditv1.LevelNone {
			Expect(events).To(BeEmpty())
			return
		}
		Expect(events).NotTo(BeEmpty())
		event := events[len(events)-1]
		Expect(event.Level).To(Equal(level))
		Expect(event.ResponseStatus.Code).To(BeEquivalentTo(code))
		Expect(event.Annotations[annotationUserTenant]).To(Equal(own))
		Expect(event.Annotations[annotationTenant]).To(Equal(target))
	},
		Entry("of who has much logged", as(verbose), tenant.Name(""), auditv1.LevelRequestResponse, http.StatusOK, "verbose", "verbose"),
		Entry("and names its space", as(verbose), verbose, auditv1.LevelRequestResponse, http.StatusOK, "verbose", "verbose"),
		Entry("of who has nothing logged", as(silent), tenant.Name(""), auditv1.LevelNone, 0, "", ""),
		Entry("and names its space", as(silent), silent, auditv1.LevelNone, 0, "", ""),
		Entry("of who has no policy", as(plain), plain, auditv1.LevelMetadata, http.StatusOK, "plain", "plain"),
		Entry("of the system", as(tenant.System), tenant.Name(""), auditv1.LevelMetadata, http.StatusOK, "system", "system"),

		Entry("not of attempts in another space", as(silent), plain, auditv1.LevelMetadata, http.StatusForbidden, "silent", "plain"),
		Entry("not of attempts where much is logged", as(silent), verbose, auditv1.LevelRequestResponse, http.StatusForbidden, "silent", "verbose"),
		Entry("not of attempts where nothing is logged", as(plain), silent, auditv1.LevelMetadata, http.StatusForbidden, "plain", "silent"),
		Entry("not of attempts in no space", as(silent), tenant.Name("unknown"), auditv1.LevelMetadata, http.StatusForbidden, "silent", "unknown"),
		Entry("not of attempts in all spaces", as(silent), suite.All, auditv1.LevelMetadata, http.StatusForbidden, "silent", "all"),
		Entry("not of attempts in the system space", as(silent), tenant.System, auditv1.LevelMetadata, http.StatusForbidden, "silent", "system"),
		Entry("not of attempts to become somebody else", func() *rest.Config {
			config := tenantry.Config(silent)
			config.Impersonate = rest.ImpersonationConfig{UserName: "joe", Extra: map[string][]string{tenant.UserExtraKey: {"plain"}}}
			return config
		}, silent, auditv1.LevelMetadata, http.StatusForbidden, "silent", "silent"),
		Entry("of attempts of who has much logged", as(verbose), silent, auditv1.LevelRequestResponse, http.StatusForbidden, "verbose", "silent"),
		Entry("not of nobody, where nothing is logged", anonymous, silent, auditv1.LevelMetadata, http.StatusForbidden, "", "silent"),
		Entry("not of the system, where nothing is logged", as(tenant.System), silent, auditv1.LevelMetadata, http.StatusOK, "system", "silent"),
		Entry("of the system, where much is logged", as(tenant.System), verbose, auditv1.LevelRequestResponse, http.StatusOK, "system", "verbose"),
	)

	It("logs bodies, and what users do whom another tenant has let in", func(ctx SpecContext) {
		events := logged(ctx, tenantry.Config(verbose), func(client *kubernetes.Clientset) {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "logged"}, Data: map[string]string{"what": "a body"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		})
		last := events[len(events)-1]
		Expect(last.RequestObject).NotTo(BeNil())
		Expect(string(last.RequestObject.Raw)).To(ContainSubstring("a body"))
		Expect(string(last.ResponseObject.Raw)).To(ContainSubstring("resourceVersion"))

		Expect(tenantry.Client(verbose).RESTClient().Post().AbsPath("/apis/tenantry.io/v1alpha1/tenantaccesspolicies").Body([]byte(
			`{"apiVersion": "tenantry.io/v1alpha1", "kind": "TenantAccessPolicy", "metadata": {"name": "visitors"}, "spec": {
				"subjects": [{"tenant": "silent", "kind": "User", "name": "admin"}],
				"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"], "namespaces": ["default"]}]}}`)).Do(ctx).Error()).To(Succeed())
		events = logged(ctx, tenantry.In(verbose, tenantry.Config(silent)), list(ctx))
		last = events[len(events)-1]
		Expect(last.Level).To(Equal(auditv1.LevelRequestResponse))
		Expect(last.ResponseStatus.Code).To(BeEquivalentTo(http.StatusOK))
		Expect(string(last.ResponseObject.Raw)).To(ContainSubstring("a body"))
	})

	It("holds by its rules, from the next request on, and no longer than it is there", func(ctx SpecContext) {
		tenantry.CreateTenants(ctx, "ruled")
		Expect(setPolicy(ctx, "ruled", `{"omitStages": ["RequestReceived"], "rules": [
			{"level": "None", "verbs": ["get", "list", "watch"]},
			{"level": "Request", "resources": [{"group": "", "resources": ["configmaps"]}]}]}`)).To(Succeed())
		write := func(client *kubernetes.Clientset) {
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "m-"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(logged(ctx, tenantry.Config("ruled"), list(ctx))).To(BeEmpty())
		events := logged(ctx, tenantry.Config("ruled"), write)
		Expect(events).To(HaveLen(1))
		Expect(events[0].Level).To(Equal(auditv1.LevelRequest))
		Expect(events[0].RequestObject).NotTo(BeNil())
		Expect(events[0].ResponseObject).To(BeNil())

		Expect(setPolicy(ctx, "ruled", "null")).To(Succeed())
		events = logged(ctx, tenantry.Config("ruled"), write)
		Expect(events).To(HaveLen(2))
		Expect(events[1].Level).To(Equal(auditv1.LevelMetadata))
	})

	DescribeTable("is refused", func(ctx SpecContext, n tenant.Name, policy, message string) {
		err := setPolicy(ctx, n, policy)
		Expect(err).To(Satisfy(apierrors.IsInvalid))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("without rules", plain, `{}`, "spec.auditPolicy.rules: Required value"),
		Entry("without a rule", plain, `{"rules": []}`, "spec.auditPolicy.rules: Required value"),
		Entry("with an unknown level", plain, `{"rules": [{"level": "All"}]}`, `spec.auditPolicy.rules[0].level: Unsupported value: "All"`),
		Entry("with an unknown stage", plain, `{"omitStages": ["Late"], "rules": [{"level": "None"}]}`, "spec.auditPolicy.omitStages[0]"),
		Entry("with a bad group", plain, `{"rules": [{"level": "None"}, {"level": "None", "resources": [{"group": "apps/v1"}]}]}`, "spec.auditPolicy.rules[1].resources.group"),
		Entry("for the system", tenant.System, `{"rules": [{"level": "None"}]}`, "--audit-policy-file"),
	)

	It("is the platform's to choose", func(ctx SpecContext) {
		for _, path := range []string{"/api/v1/tenants/verbose", "/apis/tenantry.io/v1alpha1/tenants/verbose"} {
			err := suite.Client(tenantry.ShortPath(tenantry.Config(verbose))).RESTClient().Patch("application/merge-patch+json").AbsPath(path).
				Body([]byte(`{"spec": {"auditPolicy": null}}`)).Do(ctx).Error()
			Expect(err).To(Or(Satisfy(apierrors.IsForbidden), Satisfy(apierrors.IsNotFound)))
		}
	})
})
