package search

import (
	"context"
	"encoding/json"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/search"
)

// rule is a rule that says little beside resources.
func rule(verb, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

var _ = Describe("a user", func() {
	configMap := func(ctx context.Context, namespace, name string) {
		GinkgoHelper()
		_, err := tenantry.Client(acme).CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}

	DescribeTable("finds what a rule in one namespace lets it list", func(ctx SpecContext, of rbacv1.PolicyRule, query string, want ...string) {
		namespace, other := namespaceIn(ctx, acme, "points"), namespaceIn(ctx, acme, "points")
		for _, in := range []string{namespace, other} {
			for _, name := range []string{"cm0", "cm1"} {
				configMap(ctx, in, name)
			}
			secretIn(ctx, acme, in, "s0")
			pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "d0"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
			_, err := tenantry.Client(acme).AppsV1().Deployments(in).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d0"}, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		user := "of-" + namespace // others may still be bound in the namespaces of earlier entries
		let(ctx, acme, namespace, user, of)
		answer, err := try(ctx, tenantry.User(acme, user), query, "")
		Expect(err).NotTo(HaveOccurred())
		for _, item := range answer.Items {
			Expect(item.Namespace).To(Equal(namespace))
		}
		if len(want) == 0 {
			Expect(answer.Items).To(BeEmpty())
		} else {
			Expect(namesIn(answer)).To(Equal(want))
		}
	},
		Entry("a resource, and nothing else", rule("list", "", "configmaps"), "name:!kube-root-ca.crt", "cm0", "cm1"),
		Entry("nothing but the resource", rule("list", "", "configmaps"), "kind:!ConfigMap"),
		Entry("what it may get is not listed", rule("get", "", "configmaps"), ""),
		Entry("what it may watch is not listed", rule("watch", "", "*"), ""),
		Entry("a subresource", rule("list", "", "configmaps/status"), ""),
		Entry("a name", rule("list", "", "configmaps", "cm0"), "", "cm0"),
		Entry("a name that is no wildcard", rule("list", "", "configmaps", "*"), ""),
		Entry("a group, and no other", rule("list", "apps", "*"), "kind:!ReplicaSet", "d0"),
		Entry("no object of its namespace", rule("list", "", "namespaces"), ""),
		Entry("what it has by an exclusion", rule("list", "*", "*"), "kind:secret", "s0"),
	)

	It("without rights is told of no count, related object, property and value", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "nothing")
		secretIn(ctx, acme, namespace, "s0")
		status, body := get(ctx, tenantry.User(acme, "nobody"), "/search?related=*&q=namespace:"+namespace)
		Expect(status).To(Equal(http.StatusOK), body)
		var answer search.Answer
		Expect(json.Unmarshal([]byte(body), &answer)).To(Succeed())
		Expect(answer.Count).To(BeZero())
		Expect(answer.Items).To(And(BeEmpty(), Not(BeNil())))
		Expect(answer.Related).To(BeEmpty())
		for _, property := range []string{"namespace", "name", "kind", "label", "space", "created", "status"} {
			var data struct{ SearchComplete []string }
			Expect(post(ctx, tenantry.User(acme, "nobody"), `query q($p: String!) { searchComplete(property: $p) }`, map[string]any{"p": property}, &data)).To(Succeed())
			Expect(data.SearchComplete).To(BeEmpty(), property)
		}
	})

	It("shares nothing with others without a UID, and has the groups of its next request", func(ctx SpecContext) {
		namespace := namespaceIn(ctx, acme, "groups")
		configMap(ctx, namespace, "of-group")
		binding := let(ctx, acme, namespace, "a", rule("list", "", "configmaps", "of-group"))
		binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "team"}}
		_, err := tenantry.Client(acme).RbacV1().RoleBindings(namespace).Update(ctx, binding, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for range 2 { // in turn
			Expect(find(ctx, tenantry.User(acme, "member", "team"), "", "")).To(Equal([]string{"of-group"}))
			Expect(find(ctx, tenantry.User(acme, "member"), "", "")).To(BeEmpty())
			Expect(find(ctx, tenantry.User(acme, "a"), "", "")).To(BeEmpty())
		}
	})

	It("whose credentials are refused is not told why", func(ctx SpecContext) {
		nobody := rest.AnonymousClientConfig(tenantry.Config(acme))
		_, without := get(ctx, nobody, search.Path)
		for _, token := range []string{"wrong", tokenOf(ctx, acme, "here") + "x"} {
			with := rest.CopyConfig(nobody)
			with.BearerToken = token
			status, body := get(ctx, with, search.Path)
			Expect(status).To(Equal(http.StatusUnauthorized), body)
			Expect(body).To(Equal(without))
		}
	})
})
