package workloads

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/canary"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/test/env/suite"
)

// policiesIn returns the policies of a namespace of the host, by their names.
func policiesIn(ctx context.Context, namespace string) (map[string]*networkingv1.NetworkPolicy, error) {
	list, err := host.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]*networkingv1.NetworkPolicy{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found, nil
}

var _ = Describe("The network of spaces", func() {
	It("is that of the tenant and the outside, until a policy of the tenant says something else", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "net", Labels: map[string]string{"team": "a"}}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			_, err := client.CoreV1().Pods("net").Create(ctx, plainPod("open"), metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		pod := onHost(ctx, acme, "open")
		Expect(pod.Labels).To(And(HaveKeyWithValue(network.OpenIngressLabel, "true"), HaveKeyWithValue(network.OpenEgressLabel, "true")))
		all, err := policiesIn(ctx, pod.Namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveLen(len(network.Names)), "they are there before the pod")
		Expect(all[network.Names[0]].Spec.Ingress).To(BeEmpty(), "the servers are no pods of the host")
		there, err := host.CoreV1().Namespaces().Get(ctx, pod.Namespace, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		for key, value := range network.NamespaceLabels(map[string]string{"team": "a", corev1.LabelMetadataName: "net"}) {
			Expect(there.Labels).To(HaveKeyWithValue(key, value))
		}

		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "allow"}, Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{}, {From: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: names.TenantUIDLabel, Operator: metav1.LabelSelectorOpDoesNotExist}}},
			}}}},
		}}
		policies := client.NetworkingV1().NetworkPolicies("net")
		_, err = policies.Create(ctx, policy, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		labels := func() (map[string]string, error) {
			now, err := host.CoreV1().Pods(pod.Namespace).Get(ctx, "open", metav1.GetOptions{})
			return now.Labels, err
		}
		Eventually(labels).Should(And(Not(HaveKey(network.OpenIngressLabel)), HaveKey(network.OpenEgressLabel)))
		all, err = policiesIn(ctx, pod.Namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveKey("tn-allow"), "it is there before the label goes")
		for _, rule := range all["tn-allow"].Spec.Ingress {
			Expect(rule.From).NotTo(BeEmpty(), "that would be everybody")
			for _, peer := range rule.From {
				if peer.IPBlock == nil {
					Expect(peer.NamespaceSelector.MatchLabels).To(HaveKeyWithValue(names.TenantUIDLabel, there.Labels[names.TenantUIDLabel]))
				}
			}
		}

		// What somebody changes on the host comes back.
		changed := all["tn-allow"].DeepCopy()
		changed.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		_, err = host.NetworkingV1().NetworkPolicies(pod.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(host.NetworkingV1().NetworkPolicies(pod.Namespace).Delete(ctx, network.Names[0], metav1.DeleteOptions{})).To(Succeed())
		Eventually(func(g Gomega) {
			now, err := policiesIn(ctx, pod.Namespace)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now).To(HaveKey(network.Names[0]))
			g.Expect(now["tn-allow"].Spec).To(Equal(all["tn-allow"].Spec))
		}).Should(Succeed())

		Expect(policies.Delete(ctx, "allow", metav1.DeleteOptions{})).To(Succeed())
		Eventually(labels).Should(HaveKey(network.OpenIngressLabel))
		Eventually(func() (map[string]*networkingv1.NetworkPolicy, error) { return policiesIn(ctx, pod.Namespace) }).ShouldNot(HaveKey("tn-allow"))
	})

	It("has no pods where the host does not enforce policies, and says so", func(ctx SpecContext) {
		canaries.exitCode.Store(canary.Unenforced)
		DeferCleanup(func() { canaries.exitCode.Store(canary.Enforced) })
		pods := tenantry.Client(globex).CoreV1().Pods("default")
		told := func(name string) func() (string, error) {
			return func() (string, error) {
				now, err := pods.Get(ctx, name, metav1.GetOptions{})
				if err != nil || len(now.Status.Conditions) == 0 {
					return "", err
				}
				return now.Status.Conditions[0].Message, nil
			}
		}
		n := 0
		Eventually(func() (string, error) { // until a test has found that
			n++
			name := "test-" + string(rune('a'+n%26)) + string(rune('a'+n/26))
			if _, err := pods.Create(ctx, plainPod(name), metav1.CreateOptions{}); err != nil {
				return "", err
			}
			var message string
			Eventually(func() (bool, error) {
				all, err := hostPods(ctx, name)
				if err == nil {
					message, err = told(name)()
				}
				return message != "" || all[globex.String()] != nil, err
			}).Should(BeTrue())
			return message, nil
		}).Should(And(ContainSubstring("does not enforce network policies"), ContainSubstring("--network-isolation=Unenforced")))
		_, err := pods.Create(ctx, plainPod("waits"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(told("waits")).Should(ContainSubstring("does not enforce network policies"))
		all, err := hostPods(ctx, "waits")
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(BeEmpty())

		canaries.exitCode.Store(canary.Enforced)
		onHost(ctx, globex, "waits")
	})
})

var _ = Describe("The syncer's policies", func() {
	It("reach no other tenant, whatever it writes", func(ctx SpecContext) {
		_, err := tenantry.Client(acme).CoreV1().Pods("default").Create(ctx, plainPod("bounded"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		namespace := onHost(ctx, acme, "bounded").Namespace
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Client(config).NetworkingV1()
		try := func(in string, peers ...networkingv1.NetworkPolicyPeer) error {
			_, err := stolen.NetworkPolicies(in).Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: networkingv1.NetworkPolicySpec{
				Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers}},
			}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		Expect(try("kube-system", networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}})).To(Satisfy(apierrors.IsForbidden))
		Expect(try(namespace)).To(MatchError(ContainSubstring("policies of spaces say who their peers are")))
		for _, labels := range []map[string]string{nil, {names.TenantUIDLabel: "other"}, {corev1.LabelMetadataName: "kube-system"}} {
			Expect(try(namespace, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: labels}})).
				To(MatchError(ContainSubstring("policies of spaces have peers of their tenant alone")))
		}
		Expect(try(namespace, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}})).To(Succeed())
	})

	It("let no pod send packets in the name of others", func(ctx SpecContext) {
		_, err := tenantry.Client(acme).CoreV1().Pods("default").Create(ctx, plainPod("raw"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := onHost(ctx, acme, "raw")
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		pods := suite.Client(config).CoreV1().Pods(there.Namespace)
		try := func(change func(*corev1.Pod)) error {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Spec: *there.Spec.DeepCopy()}
			pod.Spec.NodeName = ""
			change(pod)
			_, err := pods.Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		drops := func(all ...corev1.Capability) *corev1.SecurityContext {
			return &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: all}}
		}
		refused := MatchError(ContainSubstring("containers of spaces drop NET_RAW, or ALL"))
		Expect(try(func(*corev1.Pod) {})).To(Succeed())
		Expect(try(func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = drops("CHOWN", "ALL") })).To(Succeed())
		Expect(try(func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = drops("CAP_NET_RAW") })).To(refused)
		Expect(try(func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = nil })).To(refused)
		Expect(try(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "i"}} })).To(refused)
	})
})
