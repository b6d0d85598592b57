package operator

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/hostpublish"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness"
)

var _ = Describe("What a ControlPlane publishes of the host", Ordered, func() {
	var home *served
	var given []client.Object
	const policies = "validatingadmissionpolicies.admissionregistration.k8s.io"
	annotated := map[string]string{tenant.PublishedAnnotation: tenant.PublishedTrue}

	BeforeAll(func(ctx SpecContext) {
		home = createServed(ctx, "publisher")
		t := newTenant("reader")
		t.Spec.ControlPlaneRef = home.ref()
		createTenant(ctx, t)
		expectReady(ctx, "reader")
		change(ctx, newControlPlane("publisher"), "publisher", func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Publish = &v1alpha1.ControlPlanePublish{
				Resources: []string{"configmaps"}, Objects: []v1alpha1.HostObject{{Resource: policies, Name: "no-latest"}},
			}
		})
	}, NodeTimeout(startTimeout))

	AfterAll(func(ctx SpecContext) {
		for _, object := range given {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		}
	})

	// inSpace returns a client of the space of the Tenant.
	inSpace := func() *kubernetes.Clientset {
		return kubernetes.NewForConfigOrDie(harness.InSpace(home.admin, "reader"))
	}

	It("waits for the right to read it", func(ctx SpecContext) {
		condition := expectCondition(ctx, "publisher", v1alpha1.ConditionHostPublished, metav1.ConditionFalse, v1alpha1.ReasonNotPublished)
		Expect(condition.Message).To(ContainSubstring("the operator may not get validatingadmissionpolicies.admissionregistration.k8s.io of the whole host: give its account the verbs get, list and watch"))
		verbs := []string{"get", "list", "watch"}
		subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "tenantry-operator"}}
		name := metav1.ObjectMeta{Name: "tenantry-operator-publish"}
		for _, object := range []client.Object{
			&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicies"}}}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shown", Annotations: annotated}, Data: map[string]string{"k": "1"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "private"}, Data: map[string]string{"k": "1"}},
			&admissionregistrationv1.ValidatingAdmissionPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "no-latest", Annotations: annotated},
				Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
					MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{"CREATE"},
							Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
						},
					}}},
					Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
				},
			},
		} {
			Expect(admin.Create(ctx, object)).To(Succeed())
			given = append(given, object)
		}
		// What is missing is looked at once a minute; a change of the spec is a reason, too.
		change(ctx, newControlPlane("publisher"), "publisher", func(cp *v1alpha1.ControlPlane) {
			cp.Spec.Publish.Objects = append(cp.Spec.Publish.Objects, v1alpha1.HostObject{Resource: "configmaps", Name: "later"})
		})
		Eventually(func(g Gomega) {
			condition := expectCondition(ctx, "publisher", v1alpha1.ConditionHostPublished, metav1.ConditionFalse, v1alpha1.ReasonNotPublished)
			g.Expect(condition.Message).To(Equal(`spec.publish.objects: configmaps "later" is not published: namespace "` + namespace + `" has none of this name`))
		}).Should(Succeed())
		later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "later", Annotations: annotated}}
		Expect(admin.Create(ctx, later)).To(Succeed())
		given = append(given, later)
		expectCondition(ctx, "publisher", v1alpha1.ConditionHostPublished, metav1.ConditionTrue, v1alpha1.ReasonInControlPlane)
	})

	It("is in every space", func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			shown, err := inSpace().CoreV1().ConfigMaps("default").Get(ctx, "shown", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shown.Data).To(Equal(map[string]string{"k": "1"}))
			_, err = inSpace().AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, "no-latest", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}).Should(Succeed())
		_, err := inSpace().CoreV1().ConfigMaps("default").Get(ctx, "private", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	DescribeTable("is written by a user that may", func(ctx SpecContext, verb, group, resource, in string, allowed bool) {
		review, err := kubernetes.NewForConfigOrDie(home.admin).AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: hostpublish.PublisherUser, ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: group, Resource: resource, Namespace: in,
			}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.Allowed).To(Equal(allowed))
	},
		Entry(nil, "publish", "", "configmaps", "", true),
		Entry(nil, "update", "", "configmaps", "default", true),
		Entry(nil, "update", "", "configmaps", "kube-system", false),
		Entry(nil, "publish", "", "secrets", "", false),
		Entry(nil, "get", "", "secrets", "default", false),
		Entry(nil, "force-publish", "", "configmaps", "", false),
		Entry(nil, "create", "tenantry.io", "tenants", "", false),
	)

	It("follows edits and deletions", func(ctx SpecContext) {
		edited := &corev1.ConfigMap{}
		change(ctx, edited, "shown", func(c *corev1.ConfigMap) { c.Data = map[string]string{"k": "2"} })
		Eventually(func() (map[string]string, error) {
			shown, err := inSpace().CoreV1().ConfigMaps("default").Get(ctx, "shown", metav1.GetOptions{})
			return shown.Data, err
		}).Should(Equal(map[string]string{"k": "2"}))
		Expect(admin.Delete(ctx, edited)).To(Succeed())
		gone := func(name string) func() bool {
			return func() bool {
				_, err := inSpace().CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
				return apierrors.IsNotFound(err)
			}
		}
		Eventually(gone("shown")).Should(BeTrue())

		By("not being published any more")
		change(ctx, newControlPlane("publisher"), "publisher", func(cp *v1alpha1.ControlPlane) { cp.Spec.Publish = nil })
		Eventually(func() bool {
			_, err := inSpace().AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(ctx, "no-latest", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue())
		Eventually(func() []string { return get(ctx, newControlPlane("publisher"), "publisher").Status.Published }).Should(BeEmpty())
	})
})

var _ = DescribeTable("The definition of ControlPlanes refuses to publish", func(ctx SpecContext, publish v1alpha1.ControlPlanePublish, message string) {
	cp := newControlPlane("refused")
	cp.Spec.Publish = &publish
	err := admin.Create(ctx, cp, client.DryRunAll)
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	Expect(err.Error()).To(ContainSubstring(message))
},
	Entry("all Secrets", v1alpha1.ControlPlanePublish{Resources: []string{"secrets"}}, "are published by name: list them in objects"),
	Entry("all Roles", v1alpha1.ControlPlanePublish{Resources: []string{"roles.rbac.authorization.k8s.io"}}, "are published by name: list them in objects"),
	Entry("all webhooks", v1alpha1.ControlPlanePublish{Resources: []string{"validatingwebhookconfigurations.admissionregistration.k8s.io"}}, "are published by name: list them in objects"),
	Entry("a kind", v1alpha1.ControlPlanePublish{Resources: []string{"ConfigMap"}}, "such as configmaps"),
	Entry("an object of a kind", v1alpha1.ControlPlanePublish{Objects: []v1alpha1.HostObject{{Resource: "Secret", Name: "x"}}}, "such as secrets"),
	Entry("an object without a name", v1alpha1.ControlPlanePublish{Objects: []v1alpha1.HostObject{{Resource: "secrets"}}}, "should be at least 1"),
	Entry("into the platform's namespace", v1alpha1.ControlPlanePublish{Namespace: "kube-system"}, "namespaces kube-* are the platform's own"),
	Entry("into a path", v1alpha1.ControlPlanePublish{Namespace: "a/b"}, "must be the name of a namespace"),
)
