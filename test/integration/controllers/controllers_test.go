package controllers

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

var everySpace = []tenant.Name{"a", "b", tenant.System}

// namespace is the test's own, of the same name in every space.
var (
	namespace  string
	namespaces int
)

var _ = BeforeEach(func(ctx context.Context) {
	namespaces++
	namespace = fmt.Sprintf("test-%d", namespaces)
	for _, n := range everySpace {
		_, err := client(n).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
})

// inEverySpace declares one test for each space.
func inEverySpace(text string, test func(ctx context.Context, c *kubernetes.Clientset)) {
	for _, n := range everySpace {
		It(fmt.Sprintf("%s in the space %s", text, n), func(ctx context.Context) { test(ctx, client(n)) })
	}
}

var labels = map[string]string{"app": "web"}

func podTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.org/i:1"}}},
	}
}

func pods(c *kubernetes.Clientset) func(context.Context) ([]corev1.Pod, error) {
	return func(ctx context.Context) ([]corev1.Pod, error) {
		list, err := c.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
}

var _ = Describe("new namespaces", func() {
	inEverySpace("have a service account and the root certificates", func(ctx context.Context, c *kubernetes.Clientset) {
		Eventually(func(g Gomega) {
			_, err := c.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			ca, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ca.Data).To(HaveKeyWithValue("ca.crt", HavePrefix("-----BEGIN CERTIFICATE-----")))
		}).Should(Succeed())
	})
})

var _ = Describe("deleted namespaces", func() {
	inEverySpace("are emptied and go", func(ctx context.Context, c *kubernetes.Clientset) {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() bool {
			_, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue())
		for _, n := range everySpace {
			if other := client(n); other.RESTClient().Get().URL().String() != c.RESTClient().Get().URL().String() {
				_, err := other.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
				Expect(err).NotTo(HaveOccurred(), "the namespace of the same name in space %s", n)
			}
		}
	})
})

var _ = Describe("VolumeAttributesClasses that are deleted", func() {
	It("go when no claim of their space has them", func(ctx context.Context) {
		named := metav1.ObjectMeta{Name: namespace}
		claims := client("a").CoreV1().PersistentVolumeClaims(namespace)
		_, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: named, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeAttributesClassName: &named.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		get := func(n tenant.Name) func() error {
			return func() error {
				_, err := client(n).StorageV1().VolumeAttributesClasses().Get(ctx, namespace, metav1.GetOptions{})
				return err
			}
		}
		for _, n := range everySpace {
			classes := client(n).StorageV1().VolumeAttributesClasses()
			_, err := classes.Create(ctx, &storagev1.VolumeAttributesClass{ObjectMeta: named, DriverName: "example.com/d", Parameters: map[string]string{"a": "b"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(classes.Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
			if n != "a" {
				Eventually(get(n)).Should(Satisfy(apierrors.IsNotFound))
			}
		}
		Expect(get("a")()).To(Succeed())
		Expect(claims.Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
		Eventually(get("a")).Should(Satisfy(apierrors.IsNotFound))
	})
})

var _ = Describe("Jobs that replace failed pods alone", func() {
	It("go with their namespace, although no node says that a pod has failed", func(ctx context.Context) {
		c := client("a")
		template := podTemplate()
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := c.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: batchv1.JobSpec{
			Template: template, PodReplacementPolicy: ptr.To(batchv1.Failed),
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(pods(c)).WithContext(ctx).Should(HaveLen(1))
		Expect(c.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() bool {
			_, err := c.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithTimeout(2 * time.Minute).Should(BeTrue())
	})
})

var _ = Describe("workloads", func() {
	inEverySpace("deployment, replica set, endpoints and slices", func(ctx context.Context, c *kubernetes.Clientset) {
		_, err := c.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = c.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(),
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(pods(c)).WithContext(ctx).Should(HaveLen(2))
		all, err := pods(c)(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: all[0].Name}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName},
		}, metav1.CreateOptions{})).To(Succeed())
		all[0].ResourceVersion = ""
		all[0].Spec.NodeName = nodeName
		all[0].Status.Phase = corev1.PodRunning
		all[0].Status.PodIP = "10.1.2.3"
		all[0].Status.PodIPs = []corev1.PodIP{{IP: "10.1.2.3"}}
		all[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, err = c.CoreV1().Pods(namespace).UpdateStatus(ctx, &all[0], metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			endpoints, err := c.CoreV1().Endpoints(namespace).Get(ctx, "web", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(endpoints.Subsets).To(HaveLen(1))
			g.Expect(endpoints.Subsets[0].Addresses).To(HaveLen(1))
			g.Expect(endpoints.Subsets[0].Addresses[0].TargetRef.Namespace).To(Equal(namespace))
			slices, err := c.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.Items).To(HaveLen(1))
			g.Expect(slices.Items[0].Endpoints).To(HaveLen(1))
			g.Expect(slices.Items[0].Endpoints[0].TargetRef.Namespace).To(Equal(namespace))
			deployment, err := c.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(deployment.Status.ReadyReplicas).To(Equal(int32(1)))
			events, err := c.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(events.Items)).To(BeNumerically(">=", 3))
		}).Should(Succeed())
	})

	inEverySpace("stateful set, job, cron job and disruption budget", func(ctx context.Context, c *kubernetes.Clientset) {
		_, err := c.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(),
				VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
					ObjectMeta: metav1.ObjectMeta{Name: "data"},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
					},
				}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		template := podTemplate()
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err = c.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: "once"},
			Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template.Spec}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = c.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "db"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, MinAvailable: ptr.To(intstr.FromInt32(1))},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			all, err := pods(c)(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(all).To(HaveLen(2))
			claim, err := c.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "data-db-0", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(claim.Namespace).To(Equal(namespace))
			budget, err := c.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, "db", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(budget.Status.ExpectedPods).To(Equal(int32(1)))
			job, err := c.BatchV1().Jobs(namespace).Get(ctx, "once", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(job.Status.Active).To(Equal(int32(1)))
		}).Should(Succeed())
	})
})

var _ = Describe("cron jobs", func() {
	template := podTemplate()
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	scheduled := func(ctx context.Context, c *kubernetes.Clientset, policy batchv1.ConcurrencyPolicy, active string) func(context.Context) (*batchv1.CronJob, error) {
		GinkgoHelper()
		cronJobs := c.BatchV1().CronJobs(namespace)
		_, err := cronJobs.Create(ctx, &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: "often"},
			Spec: batchv1.CronJobSpec{
				Schedule: "@every 1s", ConcurrencyPolicy: policy, Suspend: ptr.To(true),
				JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template.Spec}}},
			},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = cronJobs.Patch(ctx, "often", types.MergePatchType, fmt.Appendf(nil, `{"status":{"active":[%s]}}`, active), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		_, err = cronJobs.Patch(ctx, "often", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		return func(ctx context.Context) (*batchv1.CronJob, error) {
			return cronJobs.Get(ctx, "often", metav1.GetOptions{})
		}
	}

	inEverySpace("name their active Jobs as the space does", func(ctx context.Context, c *kubernetes.Clientset) {
		get := scheduled(ctx, c, batchv1.AllowConcurrent, "")
		Eventually(func(g Gomega) {
			cronJob, err := get(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(cronJob.Status.Active).NotTo(BeEmpty())
			g.Expect(cronJob.Status.Active[0].Namespace).To(Equal(namespace))
		}).Should(Succeed())
	})

	It("replace no Job of another space, whatever their status names", func(ctx context.Context) {
		var active []string
		victims := map[tenant.Name]string{"b": "b|" + namespace, tenant.System: namespace}
		for n, flattened := range victims {
			victim, err := client(n).BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: "victim"},
				Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: template.Spec}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			active = append(active, fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","namespace":%q,"name":"victim","uid":%q}`, flattened, victim.UID))
		}
		get := scheduled(ctx, client("a"), batchv1.ReplaceConcurrent, strings.Join(active, ","))
		Eventually(func(g Gomega) {
			cronJob, err := get(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(cronJob.Status.Active).To(HaveLen(1), "the one that the controller has started")
			g.Expect(cronJob.Status.Active[0].Name).To(HavePrefix("often-"))
		}).Should(Succeed())
		for n := range victims {
			victim, err := client(n).BatchV1().Jobs(namespace).Get(ctx, "victim", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred(), "the Job in the space %s", n)
			Expect(victim.DeletionTimestamp).To(BeNil(), "the Job in the space %s", n)
		}
	})
})

var _ = Describe("quota", func() {
	inEverySpace("status is kept", func(ctx context.Context, c *kubernetes.Clientset) {
		// Upstream's controller counts what was there before the quota; what comes
		// later is counted by admission.
		Eventually(exists(ctx, c, "kube-root-ca.crt")).Should(BeTrue())
		quotas := c.CoreV1().ResourceQuotas(namespace)
		hard := corev1.ResourceList{"configmaps": resource.MustParse("10")}
		create := func(g Gomega) {
			_, err := quotas.Create(ctx, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
			}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		create(Default)
		// The controller counts what its informer of ConfigMaps has seen, which may be behind that of
		// quotas. It counts again after five minutes, and a quota that is new at once.
		Eventually(func(g Gomega) {
			quota, err := quotas.Get(ctx, "q", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				create(g)
			}
			g.Expect(err).NotTo(HaveOccurred())
			used, counted := quota.Status.Used["configmaps"]
			if counted && used.IsZero() {
				g.Expect(quotas.Delete(ctx, "q", metav1.DeleteOptions{})).To(Succeed())
			}
			g.Expect(used.Value()).To(Equal(int64(1)), "the root certificates")
		}).Should(Succeed())
	})
})

func configMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}}
}

func owner(c *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: c.Name, UID: c.UID, BlockOwnerDeletion: ptr.To(true)}
}

func exists(ctx context.Context, c *kubernetes.Clientset, name string) func() bool {
	return func() bool {
		_, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		return err == nil
	}
}

var _ = Describe("garbage collection", func() {
	create := func(ctx context.Context, c *kubernetes.Clientset, m *corev1.ConfigMap) *corev1.ConfigMap {
		GinkgoHelper()
		created, err := c.CoreV1().ConfigMaps(namespace).Create(ctx, m, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return created
	}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		inEverySpace(string(policy)+" deletes dependents", func(ctx context.Context, c *kubernetes.Clientset) {
			o := create(ctx, c, configMap("owner"))
			create(ctx, c, configMap("dependent", owner(o)))
			Expect(c.CoreV1().ConfigMaps(namespace).Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: &policy})).To(Succeed())
			Eventually(exists(ctx, c, "dependent")).Should(BeFalse())
			Eventually(exists(ctx, c, "owner")).Should(BeFalse())
		})
	}
	inEverySpace("Orphan keeps dependents", func(ctx context.Context, c *kubernetes.Clientset) {
		o := create(ctx, c, configMap("owner"))
		create(ctx, c, configMap("dependent", owner(o)))
		Expect(c.CoreV1().ConfigMaps(namespace).Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)})).To(Succeed())
		Eventually(exists(ctx, c, "owner")).Should(BeFalse())
		dependent, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, "dependent", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(dependent.OwnerReferences).To(BeEmpty())
	})
	inEverySpace("keeps what a cluster-scoped object owns, until that goes", func(ctx context.Context, c *kubernetes.Clientset) {
		role, err := c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		create(ctx, c, configMap("dependent", metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role.Name, UID: role.UID}))
		create(ctx, c, configMap("dangling", metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "gone", UID: "gone"}))
		Eventually(exists(ctx, c, "dangling")).Should(BeFalse())
		// Several workers take items in order. One that comes now is taken long after the first.
		create(ctx, c, configMap("dangling", metav1.OwnerReference{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "gone", UID: "gone"}))
		Eventually(exists(ctx, c, "dangling")).Should(BeFalse())
		Expect(exists(ctx, c, "dependent")()).To(BeTrue())
		Expect(c.RbacV1().ClusterRoles().Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(exists(ctx, c, "dependent")).Should(BeFalse())
	})
	It("takes an owner in another tenant for none", func(ctx context.Context) {
		o := create(ctx, client("a"), configMap("owner"))
		create(ctx, client("b"), configMap("dependent", owner(o)))
		Eventually(exists(ctx, client("b"), "dependent")).Should(BeFalse())
		Expect(client("a").CoreV1().ConfigMaps(namespace).Delete(ctx, "owner", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
		Eventually(exists(ctx, client("a"), "owner")).Should(BeFalse())
	})
})

var _ = Describe("ClusterRole aggregation", func() {
	It("stays in its space", func(ctx context.Context) {
		selector := map[string]string{"test.example.org/aggregate": namespace}
		rule := func(resource string) []rbacv1.PolicyRule {
			return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}}
		}
		for _, n := range everySpace {
			_, err := client(n).RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
				ObjectMeta:      metav1.ObjectMeta{Name: namespace + "-all"},
				AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: selector}}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = client(n).RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: namespace + "-part", Labels: selector}, Rules: rule("of-" + string(n)),
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		for _, n := range everySpace {
			Eventually(func(g Gomega) {
				role, err := client(n).RbacV1().ClusterRoles().Get(ctx, namespace+"-all", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(role.Rules).To(Equal(rule("of-" + string(n))))
			}).Should(Succeed())
		}
	})
	It("does not create again what is deleted with its parts", func(ctx context.Context) {
		roles := client("a").RbacV1().ClusterRoles()
		const parents = 40
		for i := range parents {
			createAggregated(ctx, roles, fmt.Sprintf("deleted-%d", i), "one", "two")
		}
		for i := range parents {
			Eventually(rulesOf(ctx, roles, fmt.Sprintf("deleted-%d-all", i))).Should(HaveLen(2))
		}
		By("deleting each with its parts at once, as uninstallers do")
		for i := range parents {
			var deleting errgroup.Group
			for _, name := range []string{"one", "two", "all"} {
				deleting.Go(func() error {
					return roles.Delete(ctx, fmt.Sprintf("deleted-%d-%s", i, name), metav1.DeleteOptions{})
				})
			}
			Expect(deleting.Wait()).To(Succeed())
		}
		By("waiting until the controller has come to what follows")
		createAggregated(ctx, roles, "later", "one")
		Eventually(rulesOf(ctx, roles, "later-all")).Should(HaveLen(1))

		left, err := roles.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, role := range left.Items {
			Expect(role.Name).NotTo(HavePrefix("deleted-"))
		}
	})
})

// createAggregated creates a ClusterRole PREFIX-all that aggregates others, PREFIX-PART,
// of one rule each.
func createAggregated(ctx context.Context, roles rbacclient.ClusterRoleInterface, prefix string, parts ...string) {
	GinkgoHelper()
	selector := map[string]string{"test.example.org/aggregate": prefix}
	_, err := roles.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: prefix + "-all"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: selector}}},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	for _, part := range parts {
		_, err := roles.Create(ctx, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: prefix + "-" + part, Labels: selector},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{part}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
}

func rulesOf(ctx context.Context, roles rbacclient.ClusterRoleInterface, name string) func() ([]rbacv1.PolicyRule, error) {
	return func() ([]rbacv1.PolicyRule, error) {
		role, err := roles.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
}

var _ = AfterEach(func(ctx context.Context) {
	for _, n := range everySpace {
		events, err := client(n).CoreV1().Events("").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, event := range events.Items {
			Expect(fmt.Sprint(event)).NotTo(Or(ContainSubstring("|"), ContainSubstring("%7C")), "an event shows a flattened name")
		}
	}
})
