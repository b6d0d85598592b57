package authorization

import (
	"encoding/json"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
)

func claiming(n string) map[string]authorizationv1.ExtraValue {
	return map[string]authorizationv1.ExtraValue{tenant.UserExtraKey: {n}}
}

// Acceptance line 29.
var _ = Describe("Reviews", Ordered, func() {
	pods := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "default"}

	BeforeAll(func(ctx SpecContext) {
		give(ctx, tenantry.Client("a"), clusterRole("pod-readers", nil, rule("pods", "list")), "reader")
		toGroup := bindingTo("pod-readers", "reader")
		toGroup.ObjectMeta = metav1.ObjectMeta{Name: "pod-reading-group"}
		toGroup.Subjects = []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "readers"}}
		_, err := tenantry.Client("a").RbacV1().ClusterRoleBindings().Create(ctx, toGroup, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(tenantry.Client("a").RbacV1().ClusterRoleBindings().Delete(ctx, toGroup.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		give(ctx, tenantry.Client("b"), clusterRole("canary-b", nil, rule("canaries", "list")), "admin")
		give(ctx, tenantry.Client(tenant.System), clusterRole("sys-readers", nil, rule("pods", "list")), "sys-reader")
		give(ctx, tenantry.Client(tenant.System), clusterRole("askers", map[string]string{tenant.ScopeAnnotation: "All"},
			rule("subjectaccessreviews", "create"), rule("localsubjectaccessreviews", "create")), "asker")
	}, NodeTimeout(specTimeout))

	DescribeTable("answer for the space they are asked in", func(ctx SpecContext, asking who, space tenant.Name, spec authorizationv1.SubjectAccessReviewSpec, allowed bool) {
		spec.ResourceAttributes = pods
		review, err := asking.in(space).AuthorizationV1().SubjectAccessReviews().Create(ctx,
			&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.Allowed).To(Equal(allowed), review.Status.Reason)
		local, err := asking.in(space).AuthorizationV1().LocalSubjectAccessReviews("default").Create(ctx,
			&authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: spec}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(local.Status.Allowed).To(Equal(allowed), local.Status.Reason)
	},
		Entry("a user of the space", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "reader"}, true),
		Entry("the same, with its tenant", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "reader", Extra: claiming("a")}, true),
		Entry("a group of the space, without a user", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{Groups: []string{"readers"}}, true),
		Entry("the group, asked by the system", who{tenant: "system", name: "asker"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{Groups: []string{"readers"}}, true),
		Entry("another group", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{Groups: []string{"others"}}, false),
		Entry("the group system:masters, without a user", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{Groups: []string{"system:masters"}}, false),
		Entry("another user", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "somebody"}, false),
		Entry("claiming b", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "reader", Extra: claiming("b")}, false),
		Entry("claiming system", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "sys-reader", Extra: claiming("system")}, false),
		Entry("claiming system:masters of system", who{tenant: "a", name: "admin"}, tenant.Name("a"),
			authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"system:masters"}, Extra: claiming("system")}, false),
		Entry("claiming system:masters", who{tenant: "a", name: "admin"}, tenant.Name("a"),
			authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"system:masters"}}, false),
		Entry("claiming two tenants", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "reader",
			Extra: map[string]authorizationv1.ExtraValue{tenant.UserExtraKey: {"a", "b"}}}, false),
		Entry("a user of the system space", who{tenant: "a", name: "admin"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "sys-reader"}, false),
		Entry("asked in b", who{tenant: "b", name: "admin"}, tenant.Name("b"), authorizationv1.SubjectAccessReviewSpec{User: "reader"}, false),
		Entry("asked by the system in a", who{tenant: "system", name: "asker"}, tenant.Name("a"), authorizationv1.SubjectAccessReviewSpec{User: "reader"}, true),
		Entry("asked by the system in a about its masters", who{tenant: "system", name: "asker"}, tenant.Name("a"),
			authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"system:masters"}}, false),
		Entry("asked by the system in a about the system's masters", who{tenant: "system", name: "asker"}, tenant.Name("a"),
			authorizationv1.SubjectAccessReviewSpec{User: "x", Groups: []string{"system:masters"}, Extra: claiming("system")}, true),
		Entry("asked by the system in the system space", who{tenant: "system", name: "asker"}, tenant.System, authorizationv1.SubjectAccessReviewSpec{User: "sys-reader"}, true),
		Entry("asked in the system space about a's", who{tenant: "system", name: "asker"}, tenant.System,
			authorizationv1.SubjectAccessReviewSpec{User: "sys-reader", Extra: claiming("a")}, false),
	)

	It("deny what nobody can do in a space", func(ctx SpecContext) {
		ask := func(client *kubernetes.Clientset, verb, group, resource, subresource string) authorizationv1.SubjectAccessReviewStatus {
			GinkgoHelper()
			review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Group: group, Resource: resource, Subresource: subresource}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return review.Status
		}
		for _, of := range [][4]string{
			{"get", "", "tenants", ""}, {"list", "tenantry.io", "tenants", ""}, {"get", "tenantry.io", "publishedobjects", ""}, {"create", "tenantry.io", "keystonesyncs", ""},
			{"list", "", "nodes", ""}, {"*", "", "nodes", ""}, {"get", "", "nodes", "proxy"}, {"get", "", "componentstatuses", ""},
			{"get", "", "pods", "proxy"}, {"create", "", "services", "proxy"},
			{"create", "storage.k8s.io", "csinodes", ""}, {"delete", "resource.k8s.io", "resourceslices", ""},
			{"create", "apiregistration.k8s.io", "apiservices", ""},
		} {
			status := ask(tenantry.Client("a"), of[0], of[1], of[2], of[3])
			Expect(status.Allowed).To(BeFalse(), "%v", of)
			Expect(status.Reason).NotTo(BeEmpty(), "%v", of)
			Expect(ask(tenantry.Client(tenant.System), of[0], of[1], of[2], of[3]).Allowed).To(BeTrue(), "%v in the system space", of)
			review, err := tenantry.Client("a").AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: "admin", ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: of[0], Group: of[1], Resource: of[2], Subresource: of[3]}}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(review.Status.Allowed).To(BeFalse(), "%v", of)
		}
		for _, of := range [][4]string{{"*", "*", "*", ""}, {"get", "", "pods", "log"}, {"list", "apiregistration.k8s.io", "apiservices", ""},
			{"list", "storage.k8s.io", "csinodes", ""}, {"create", "tenantry.io", "tenantaccesspolicies", ""}, {"list", "example.com", "nodes", ""}} {
			Expect(ask(tenantry.Client("a"), of[0], of[1], of[2], of[3]).Allowed).To(BeTrue(), "%v", of)
		}
	}, SpecTimeout(specTimeout))

	It("list no rules about what nobody can use in a space", func(ctx SpecContext) {
		give(ctx, tenantry.Client("a"), clusterRole("too-much", nil,
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "configmaps"}, Verbs: []string{"get", "list"}},
			rbacv1.PolicyRule{APIGroups: []string{"", "tenantry.io"}, Resources: []string{"tenants"}, Verbs: []string{"*"}}), "collector")
		review, err := who{tenant: "a", name: "collector"}.in("a").AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
			&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		var named []string
		for _, rule := range review.Status.ResourceRules {
			named = append(named, rule.Resources...)
		}
		Expect(named).To(ContainElement("configmaps"))
		Expect(named).NotTo(ContainElement("nodes"))
		Expect(named).NotTo(ContainElement("tenants"))
	}, SpecTimeout(specTimeout))

	It("list the rules of a role once, and not very many", func(ctx SpecContext) {
		client := tenantry.Client("a").RbacV1()
		bind := func(role string, count int) {
			for i := range count {
				_, err := client.RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(role, "-", i)},
					RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
					Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "often-bound"}},
				}, metav1.CreateOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		create := func(role string, rules int) {
			made := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role}}
			for i := range rules {
				made.Rules = append(made.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{fmt.Sprint(role, i)}, Verbs: []string{"get"}})
			}
			_, err := client.Roles("default").Create(ctx, made, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		review := func() authorizationv1.SubjectRulesReviewStatus {
			GinkgoHelper()
			answer, err := who{tenant: "a", name: "often-bound"}.in("a").AuthorizationV1().SelfSubjectRulesReviews().Create(ctx,
				&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return answer.Status
		}
		before := len(review().ResourceRules)
		create("often", 100)
		bind("often", 20)
		once := review()
		Expect(once.ResourceRules).To(HaveLen(before + 100))
		Expect(once.EvaluationError).NotTo(ContainSubstring("SelfSubjectAccessReview")) // a webhook knows no rules
		create("large", 6000)
		bind("large", 1)
		many := review()
		Expect(many.Incomplete).To(BeTrue())
		Expect(many.EvaluationError).To(ContainSubstring("SelfSubjectAccessReview"))
		Expect(len(many.ResourceRules)).To(And(BeNumerically(">", 100), BeNumerically("<=", 5000)))
	}, SpecTimeout(specTimeout))

	It("list the rules of the space alone", func(ctx SpecContext) {
		rules := func(client *kubernetes.Clientset) string {
			GinkgoHelper()
			review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			data, err := json.Marshal(review.Status)
			Expect(err).NotTo(HaveOccurred())
			return string(data)
		}
		Expect(rules(tenantry.Client("b"))).To(ContainSubstring("canaries"))
		Expect(rules(tenantry.Client("a"))).NotTo(ContainSubstring("canaries"))
		Expect(rules(who{tenant: "a", name: "reader"}.in("a"))).To(ContainSubstring(`"pods"`))
		Expect(rules(who{tenant: "b", name: "reader"}.in("b"))).NotTo(ContainSubstring(`"pods"`))
		Expect(rules(who{tenant: "a", name: "sys-reader"}.in("a"))).NotTo(ContainSubstring(`"pods"`))
	}, SpecTimeout(specTimeout))

	It("of the own rights are not answered where nobody has let in", func(ctx SpecContext) {
		_, err := who{tenant: "a", name: "reader"}.in("b").AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
		Expect(err).To(beForbidden)
	}, SpecTimeout(specTimeout))
})
