package flowcontrol

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// schemaOf returns the UID of the FlowSchema that classified an answer.
func schemaOf(response *http.Response) types.UID {
	return types.UID(response.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID))
}

var _ = Describe("A request of a tenant", func() {
	uid := func(ctx SpecContext, name string) types.UID {
		GinkgoHelper()
		schema, err := tenantry.Client(tenant.System).FlowcontrolV1().FlowSchemas().Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return schema.UID
	}
	const path = "/api/v1/namespaces/default/configmaps"
	// prefer gives a tenant a FlowSchema of its own in the system space, and waits until it holds.
	prefer := func(ctx SpecContext, name string, n tenant.Name) {
		GinkgoHelper()
		schemas := tenantry.Client(tenant.System).FlowcontrolV1().FlowSchemas()
		created, err := schemas.Create(ctx, &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-high"},
				MatchingPrecedence:         5000,
				DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects: []flowcontrolv1.Subject{{Kind: "User", User: &flowcontrolv1.UserSubject{Name: "tenant:" + n.String()}}},
					ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
						Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}, ClusterScope: true,
					}},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(schemas.Delete(ctx, created.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(func() types.UID {
			return schemaOf(answer(ctx, tenantry.User(n, "jane"), path, nil))
		}).Should(Equal(created.UID))
	}

	DescribeTable("has the tenants' priority, whoever sends it",
		func(ctx SpecContext, config func(ctx SpecContext, t tenant.Name) *rest.Config, header http.Header) {
			response := answer(ctx, config(ctx, tenantry.NewTenant(ctx, "flow")), path, header)
			Expect(schemaOf(response)).To(Equal(uid(ctx, "tenants")))
		},
		Entry("its administrator", func(_ SpecContext, t tenant.Name) *rest.Config { return tenantry.Config(t) }, nil),
		Entry("a user of nothing", func(_ SpecContext, t tenant.Name) *rest.Config { return tenantry.User(t, "jane") }, nil),
		Entry("groups of the system", func(_ SpecContext, t tenant.Name) *rest.Config {
			return tenantry.User(t, "admin", "system:masters", "system:nodes")
		}, nil),
		Entry("a service account of its kube-system", func(ctx SpecContext, t tenant.Name) *rest.Config {
			admin := tenantry.Config(t)
			var token *authenticationv1.TokenRequest
			Eventually(func() (err error) { // a controller makes the account
				token, err = suite.Client(admin).CoreV1().ServiceAccounts("kube-system").
					CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
			config := rest.AnonymousClientConfig(admin)
			config.BearerToken = token.Status.Token
			return config
		}, nil),
		Entry("somebody else, impersonated",
			func(_ SpecContext, t tenant.Name) *rest.Config { return tenantry.Config(t) },
			http.Header{"Impersonate-User": {"root"}}),
	)

	It("costs what its space holds", func(ctx SpecContext) {
		big, empty := tenantry.NewTenant(ctx, "flow"), tenantry.NewTenant(ctx, "flow")
		maps := tenantry.Client(big).CoreV1().ConfigMaps("default")
		data := map[string]string{"k": strings.Repeat("x", 20_000)}
		for i := range 100 {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)}, Data: data}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		schema := func(config *rest.Config, path string) func() types.UID {
			return func() types.UID { return schemaOf(answer(ctx, config, path, nil)) }
		}
		large, small := uid(ctx, "tenants-large"), uid(ctx, "tenants")
		Eventually(schema(tenantry.Config(big), path)).Should(Equal(large))
		Expect(schema(tenantry.Config(big), path+"?limit=5")()).To(Equal(small))
		Expect(schema(tenantry.Config(empty), path)()).To(Equal(small))
	})

	It("is not affected by FlowSchemas of its space", func(ctx SpecContext) {
		own := tenantry.NewTenant(ctx, "flow")
		_, err := tenantry.Client(own).FlowcontrolV1().FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "mine"},
			Spec: flowcontrolv1.FlowSchemaSpec{
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "exempt"},
				MatchingPrecedence:         2,
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects: []flowcontrolv1.Subject{{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "*"}}},
					ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
						Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"},
					}},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		prefer(ctx, "later", tenantry.NewTenant(ctx, "flow"))
		for _, n := range []tenant.Name{own, tenantry.NewTenant(ctx, "flow")} {
			Expect(schemaOf(answer(ctx, tenantry.Config(n), path, nil))).To(Equal(uid(ctx, "tenants")))
		}
	})

	It("can be given another priority by an administrator of the system", func(ctx SpecContext) {
		own, other := tenantry.NewTenant(ctx, "flow"), tenantry.NewTenant(ctx, "flow")
		prefer(ctx, "premium", own)
		Expect(schemaOf(answer(ctx, tenantry.User(other, "jane"), path, nil))).To(Equal(uid(ctx, "tenants")))
	})

	It("leaves the system's own users what they had", func(ctx SpecContext) {
		Expect(schemaOf(answer(ctx, tenantry.Config(tenant.System), path, nil))).To(Equal(uid(ctx, "exempt")))
		Expect(schemaOf(answer(ctx, tenantry.User(tenant.System, "joe"), path, nil))).To(Equal(uid(ctx, "global-default")))
	})
})

var _ = Describe("Metrics of flow control", func() {
	It("have no series of a tenant", func(ctx SpecContext) {
		own := tenantry.NewTenant(ctx, "flow")
		Expect(answer(ctx, tenantry.Config(own), "/api/v1/namespaces/default/configmaps", nil).StatusCode).To(Equal(http.StatusOK))
		metrics, err := tenantry.Client(tenant.System).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())
		series := 0
		for line := range strings.Lines(string(metrics)) {
			if strings.HasPrefix(line, "apiserver_flowcontrol_") || strings.HasPrefix(line, "tenantry_rate_limited_") {
				series++
				Expect(line).NotTo(ContainSubstring(own.String()))
			}
		}
		Expect(series).To(BeNumerically(">", 0))
		Expect(string(metrics)).To(ContainSubstring(`apiserver_flowcontrol_dispatched_requests_total{flow_schema="tenants",priority_level="tenants"}`))
	})
})
