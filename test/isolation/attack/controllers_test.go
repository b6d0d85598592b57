package attack

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Upstream's controllers have a few workers for all tenants.
var _ = Describe("CronJobs with a status that their tenant has written", func() {
	job := batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}}
	cronJob := func(name string) *batchv1.CronJob {
		return &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: batchv1.CronJobSpec{
				Schedule: "@every 1s", Suspend: ptr.To(true), ConcurrencyPolicy: batchv1.ReplaceConcurrent,
				JobTemplate: batchv1.JobTemplateSpec{Spec: job},
			},
		}
	}
	// run has the controller look at a CronJob with a status.
	run := func(ctx SpecContext, name string, status batchv1.CronJobStatus) {
		GinkgoHelper()
		client := tenantry.Client("a").BatchV1().CronJobs("default")
		created, err := client.Create(ctx, cronJob(name), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		})
		created.Status = status
		_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{}) // the controller may have changed the status
		Expect(err).NotTo(HaveOccurred())
	}
	jobOf := func(ctx SpecContext, name string) *batchv1.Job {
		GinkgoHelper()
		created, err := tenantry.Client("b").BatchV1().Jobs("default").Create(ctx,
			&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: job}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return created
	}

	It("do not hold the workers", func(ctx SpecContext) {
		for i := range 5 {
			run(ctx, fmt.Sprintf("old-%d", i), batchv1.CronJobStatus{LastScheduleTime: ptr.To(metav1.Date(2, 1, 1, 0, 0, 0, 0, time.UTC))})
		}
		other := cronJob("other")
		other.Spec.Suspend = nil
		client := tenantry.Client("b").BatchV1().CronJobs("default")
		_, err := client.Create(ctx, other, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.Delete(ctx, other.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		Eventually(ctx, func() ([]corev1.ObjectReference, error) {
			current, err := client.Get(ctx, other.Name, metav1.GetOptions{})
			return current.Status.Active, err
		}).WithTimeout(30 * time.Second).ShouldNot(BeEmpty())
	})

	It("do not replace the Jobs of others", func(ctx SpecContext) {
		victim := jobOf(ctx, "victim")
		run(ctx, "replacing", batchv1.CronJobStatus{
			LastScheduleTime: ptr.To(metav1.NewTime(time.Now().Add(-time.Hour))),
			Active:           []corev1.ObjectReference{{Namespace: "b|default", Name: victim.Name, UID: "not of its Jobs"}},
		})
		Eventually(ctx, func() ([]batchv1.Job, error) {
			jobs, err := tenantry.Client("a").BatchV1().Jobs("default").List(ctx, metav1.ListOptions{})
			return jobs.Items, err
		}).WithTimeout(30 * time.Second).Should(ContainElement(HaveField("OwnerReferences", ContainElement(HaveField("Name", "replacing")))))
		current, err := tenantry.Client("b").BatchV1().Jobs("default").Get(ctx, victim.Name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(current.UID).To(Equal(victim.UID))
		Expect(current.DeletionTimestamp).To(BeNil())
	})
})

var _ = Describe("ClusterRoles that aggregate many rules by many selectors", func() {
	rules := func(count int) []rbacv1.PolicyRule {
		var rules []rbacv1.PolicyRule
		for i := range count {
			rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{fmt.Sprintf("r%d", i)}})
		}
		return rules
	}
	labels := map[string]string{"many": "rules"}
	selectors := func(count int) *rbacv1.AggregationRule {
		return &rbacv1.AggregationRule{ClusterRoleSelectors: slices.Repeat([]metav1.LabelSelector{{MatchLabels: labels}}, count)}
	}
	create := func(ctx SpecContext, n tenant.Name, role *rbacv1.ClusterRole) error {
		client := tenantry.Client(n).RbacV1().ClusterRoles()
		_, err := client.Create(ctx, role, metav1.CreateOptions{})
		if err == nil {
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
			})
		}
		return err
	}

	It("are refused, and do not hold the workers", func(ctx SpecContext) {
		Expect(create(ctx, "a", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "many"}, Rules: rules(1_001)})).
			To(MatchError(ContainSubstring("rules, and a ClusterRole in a space at most")))
		Expect(create(ctx, "a", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "many"}, AggregationRule: selectors(51)})).
			To(MatchError(ContainSubstring("selectors, labels and values, and that of a ClusterRole in a space at most")))
		for i := range 5 {
			Expect(create(ctx, "a", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), Labels: labels}, Rules: rules(1_000)})).To(Succeed())
			Expect(create(ctx, "a", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("all-%d", i)}, AggregationRule: selectors(50)})).To(Succeed())
		}
		Expect(create(ctx, "b", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "few", Labels: labels}, Rules: rules(2)})).To(Succeed())
		Expect(create(ctx, "b", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, AggregationRule: selectors(1)})).To(Succeed())
		Eventually(ctx, func() ([]rbacv1.PolicyRule, error) {
			role, err := tenantry.Client("b").RbacV1().ClusterRoles().Get(ctx, "all", metav1.GetOptions{})
			return role.Rules, err
		}).WithTimeout(30 * time.Second).Should(HaveLen(2))
	})
})

var _ = Describe("Policies whose types take long to check", func() {
	create := func(ctx SpecContext, n tenant.Name, variables, validations int) (observed func() (int64, error)) {
		GinkgoHelper()
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "types"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				Validations: slices.Repeat([]admissionregistrationv1.Validation{{Expression: "true"}}, validations),
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"pods", "services", "configmaps", "secrets", "endpoints", "events", "limitranges", "namespaces", "persistentvolumeclaims"},
						},
					},
				}}},
			},
		}
		for i := range variables {
			policy.Spec.Variables = append(policy.Spec.Variables,
				admissionregistrationv1.Variable{Name: fmt.Sprintf("v%d", i), Expression: "[1,1,1,1,1,1,1,1,1,1].size() > 0"})
		}
		client := tenantry.Client(n).AdmissionregistrationV1().ValidatingAdmissionPolicies()
		_, err := client.Create(ctx, policy, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.Delete(ctx, policy.Name, metav1.DeleteOptions{})).To(Succeed())
		})
		return func() (int64, error) {
			current, err := client.Get(ctx, policy.Name, metav1.GetOptions{})
			return current.Status.ObservedGeneration, err
		}
	}

	It("do not hold the worker", func(ctx SpecContext) {
		long := create(ctx, "a", 250, 250)
		short := create(ctx, "b", 1, 1)
		for _, observed := range []func() (int64, error){short, long} {
			Eventually(ctx, observed).WithTimeout(30 * time.Second).Should(Equal(int64(1)))
		}
	})
})
