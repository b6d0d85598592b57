package workloads

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	internalBalancer = "service.beta.kubernetes.io/aws-load-balancer-internal"
	cleanup          = "service.kubernetes.io/load-balancer-cleanup"
	balances         = `{"loadBalancers":"Allowed","loadBalancerAnnotations":["` + internalBalancer + `"]}`
)

// balanced is a Service with a load balancer, of which nothing is said but what a chart says.
func balanced(name string) *corev1.Service {
	s := plainService(name)
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	return s
}

// balancing returns a tenant that may have load balancers, once the server knows it.
func balancing(ctx context.Context, name, workloads string) tenant.Name {
	GinkgoHelper()
	n := tenantry.NewTenant(ctx, name)
	Expect(tenantry.SetSpec(ctx, n, "workloads", workloads)).To(Succeed())
	Eventually(func() error {
		_, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, balanced("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(Succeed())
	return n
}

// onHostIs returns the host's Service of a tenant.
func onHostIs(ctx context.Context, n tenant.Name, name string) *corev1.Service {
	GinkgoHelper()
	there := hostServices(ctx, name)[n.String()]
	Expect(there).NotTo(BeNil())
	return there
}

// provide does what a cloud's controller does: it keeps the host's Service from going before its load balancer, and
// says where that is.
func provide(ctx context.Context, there *corev1.Service, ip string) {
	GinkgoHelper()
	services := host.CoreV1().Services(there.Namespace)
	for subresource, patch := range map[string]string{ // the syncer may write it at the same time
		"":       `{"metadata":{"finalizers":["` + cleanup + `"],"annotations":{"example.com/from":"pool"}}}`,
		"status": `{"status":{"loadBalancer":{"ingress":[{"ip":"` + ip + `","ipMode":"VIP","ports":[{"port":80,"protocol":"TCP"}]}]}}}`,
	} {
		_, err := services.Patch(ctx, there.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource)
		Expect(err).NotTo(HaveOccurred())
	}
}

// release does what that controller does in the end.
func release(ctx context.Context, there *corev1.Service) {
	GinkgoHelper()
	_, err := host.CoreV1().Services(there.Namespace).Patch(ctx, there.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("Load balancers of spaces", func() {
	patch := func(ctx context.Context, n tenant.Name, name, patch string) (*corev1.Service, error) {
		return tenantry.Client(n).CoreV1().Services("default").Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	addresses := func(ctx context.Context, n tenant.Name, name string) func() []corev1.LoadBalancerIngress {
		return func() []corev1.LoadBalancerIngress {
			got, err := tenantry.Client(n).CoreV1().Services("default").Get(ctx, name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return got.Status.LoadBalancer.Ingress
		}
	}

	It("are the host's where their Tenant may have some, and say where they are", func(ctx SpecContext) {
		n := balancing(ctx, "balanced", balances)
		services := tenantry.Client(n).CoreV1().Services("default")
		wanted := balanced("web")
		wanted.Annotations = map[string]string{internalBalancer: "true", "example.com/note": "mine"}
		wanted.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
		made, err := services.Create(ctx, wanted, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(*made.Spec.AllocateLoadBalancerNodePorts).To(BeFalse())
		there := onHostIs(ctx, n, "web")
		Expect(there.Spec.Type).To(Equal(corev1.ServiceTypeLoadBalancer))
		Expect(there.Spec.ClusterIP).To(Equal(made.Spec.ClusterIP))
		Expect(*there.Spec.AllocateLoadBalancerNodePorts).To(BeFalse())
		Expect(there.Spec.Ports[0].NodePort).To(BeZero())
		Expect(there.Spec.LoadBalancerSourceRanges).To(Equal([]string{"192.0.2.0/24"}))
		Expect(there.Annotations).To(HaveKeyWithValue(internalBalancer, "true"))
		Expect(there.Annotations).NotTo(HaveKey("example.com/note"))

		provide(ctx, there, "203.0.113.7")
		at := []corev1.LoadBalancerIngress{{IP: "203.0.113.7", IPMode: new(corev1.LoadBalancerIPModeVIP)}}
		Eventually(addresses(ctx, n, "web")).Should(Equal(at))
		forged, err := services.Get(ctx, "web", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		forged.Status.LoadBalancer.Ingress[0].IP = "203.0.113.8"
		_, err = services.UpdateStatus(ctx, forged, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(addresses(ctx, n, "web")).Should(Equal(at), "what the host says")
		Expect(onHostIs(ctx, n, "web").Status.LoadBalancer.Ingress[0].IP).To(Equal("203.0.113.7"))

		_, err = patch(ctx, n, "web", `{"spec":{"loadBalancerSourceRanges":["198.51.100.0/24"]}}`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []string { return onHostIs(ctx, n, "web").Spec.LoadBalancerSourceRanges }).Should(Equal([]string{"198.51.100.0/24"}))
		changed := onHostIs(ctx, n, "web")
		Expect(changed.UID).To(Equal(there.UID))
		Expect(changed.Finalizers).To(Equal([]string{cleanup}))
		Expect(changed.Annotations).To(HaveKeyWithValue("example.com/from", "pool"))
	})

	It("go when the host has taken them away, and then the name is free", func(ctx SpecContext) {
		n := balancing(ctx, "ended", balances)
		services := tenantry.Client(n).CoreV1().Services("default")
		_, err := services.Create(ctx, balanced("web"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		provide(ctx, onHostIs(ctx, n, "web"), "203.0.113.9")
		Eventually(addresses(ctx, n, "web")).ShouldNot(BeEmpty())
		Expect(services.Delete(ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() *metav1.Time { return onHostIs(ctx, n, "web").DeletionTimestamp }).ShouldNot(BeNil())
		again := func() error {
			return tenantry.Client(n).CoreV1().RESTClient().Post().Namespace("default").Resource("services").Body(balanced("web")).MaxRetries(0).Do(ctx).Error()
		}
		Expect(again()).To(And(Satisfy(apierrors.IsServiceUnavailable), MatchError(ContainSubstring("is still on the host cluster"))))
		release(ctx, onHostIs(ctx, n, "web"))
		Eventually(again).Should(Succeed())
		Expect(addresses(ctx, n, "web")()).To(BeEmpty())
		Expect(onHostIs(ctx, n, "web").Spec.Type).To(Equal(corev1.ServiceTypeLoadBalancer))
	})

	It("come and go with the type of a Service, which keeps its address", func(ctx SpecContext) {
		n := balancing(ctx, "typed", balances)
		made, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, plainService("web"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for range 2 {
			changed, err := patch(ctx, n, "web", `{"spec":{"type":"LoadBalancer"}}`)
			Expect(err).NotTo(HaveOccurred())
			Expect(changed.Spec.ClusterIP).To(Equal(made.Spec.ClusterIP))
			Expect(*changed.Spec.AllocateLoadBalancerNodePorts).To(BeFalse())
			there := onHostIs(ctx, n, "web")
			Expect(there.Spec.Type).To(Equal(corev1.ServiceTypeLoadBalancer))
			Expect(there.Spec.Ports[0].NodePort).To(BeZero())
			provide(ctx, there, "203.0.113.10")
			Eventually(addresses(ctx, n, "web")).ShouldNot(BeEmpty())
			Eventually(func() map[string]string { return onHostIs(ctx, n, "web").Annotations }).ShouldNot(HaveKey(names.ChangeAnnotation))

			back, err := patch(ctx, n, "web", `{"spec":{"type":"ClusterIP"}}`)
			Expect(err).NotTo(HaveOccurred())
			Expect(back.Status.LoadBalancer.Ingress).To(BeEmpty())
			there = onHostIs(ctx, n, "web")
			Expect(there.Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
			Expect(there.Spec.ClusterIP).To(Equal(made.Spec.ClusterIP))
			Expect(there.Finalizers).To(Equal([]string{cleanup}), "whoever has made it is still to take it away")
			Eventually(func() map[string]string { return onHostIs(ctx, n, "web").Annotations }).ShouldNot(HaveKey(names.ChangeAnnotation))
			release(ctx, onHostIs(ctx, n, "web"))
		}
	})

	It("are refused to a Tenant without, with the field and the way out", func(ctx SpecContext) {
		services := tenantry.Client(acme).CoreV1().Services("default")
		_, err := services.Create(ctx, balanced("refused"), metav1.CreateOptions{})
		refused := And(Satisfy(apierrors.IsForbidden), MatchError(And(ContainSubstring("spec.type"), ContainSubstring("ask the platform's administrators for workloads.loadBalancers of the Tenant"))))
		Expect(err).To(refused)
		_, err = services.Create(ctx, plainService("unbalanced"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch(ctx, acme, "unbalanced", `{"spec":{"type":"LoadBalancer"}}`)
		Expect(err).To(refused)
		Expect(hostServices(ctx, "refused")).To(BeEmpty())
		Expect(onHostIs(ctx, acme, "unbalanced").Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
	})

	It("have nothing that their Tenant is not granted", func(ctx SpecContext) {
		n := balancing(ctx, "narrow", `{"loadBalancers":"Allowed"}`)
		for field, change := range map[string]func(*corev1.Service){
			"spec.externalIPs":                               func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.1"} },
			"spec.loadBalancerIP":                            func(s *corev1.Service) { s.Spec.LoadBalancerIP = "203.0.113.1" },
			"spec.loadBalancerClass":                         func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/x") },
			"spec.ports[0].nodePort":                         func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30333 },
			"spec.externalTrafficPolicy":                     func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			"metadata.annotations[" + internalBalancer + "]": func(s *corev1.Service) { s.Annotations = map[string]string{internalBalancer: "true"} },
		} {
			service := balanced("refused")
			change(service)
			_, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
			Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(field))))
		}
		Expect(hostServices(ctx, "refused")).To(BeEmpty())
	})

	It("have node ports where their Tenant may have both", func(ctx SpecContext) {
		n := balancing(ctx, "ported", `{"loadBalancers":"Allowed","nodePorts":"Allowed"}`)
		local := balanced("web")
		local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		made, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, local, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.Ports[0].NodePort).NotTo(BeZero())
		Expect(made.Spec.HealthCheckNodePort).NotTo(BeZero())
		there := onHostIs(ctx, n, "web")
		Expect(there.Spec.Ports[0].NodePort).To(Equal(made.Spec.Ports[0].NodePort))
		Expect(there.Spec.HealthCheckNodePort).To(Equal(made.Spec.HealthCheckNodePort))
		cluster, err := patch(ctx, n, "web", `{"spec":{"externalTrafficPolicy":"Cluster"}}`)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Spec.HealthCheckNodePort).To(BeZero())
		Eventually(func() int32 { return onHostIs(ctx, n, "web").Spec.HealthCheckNodePort }).Should(BeZero())
	})

	It("stay when their Tenant may have no more, and no other comes", func(ctx SpecContext) {
		n := balancing(ctx, "taken", balances)
		services := tenantry.Client(n).CoreV1().Services("default")
		wanted := balanced("web")
		wanted.Annotations = map[string]string{internalBalancer: "true"}
		_, err := services.Create(ctx, wanted, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		provide(ctx, onHostIs(ctx, n, "web"), "203.0.113.11")
		Eventually(addresses(ctx, n, "web")).ShouldNot(BeEmpty())

		Expect(tenantry.SetSpec(ctx, n, "workloads", `null`)).To(Succeed())
		Eventually(func() error {
			_, err := services.Create(ctx, balanced("other"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("workloads.loadBalancers of the Tenant")))
		onHostNamespace := func() map[string]string {
			got, err := host.CoreV1().Namespaces().Get(ctx, onHostIs(ctx, n, "web").Namespace, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return got.Labels
		}
		Eventually(func(g Gomega) {
			got, err := services.Get(ctx, "web", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Status.Conditions).NotTo(BeEmpty(), "its annotation is not granted any more")
			g.Expect(got.Status.Conditions[0].Message).To(ContainSubstring("workloads.loadBalancerAnnotations of the Tenant"))
		}).Should(Succeed())
		Expect(onHostNamespace()).To(HaveKeyWithValue(names.LoadBalancersLabel, "true"))
		there := onHostIs(ctx, n, "web")
		Expect(there.Spec.Type).To(Equal(corev1.ServiceTypeLoadBalancer))
		Expect(there.Annotations).To(HaveKeyWithValue(internalBalancer, "true"), "it does not become one for everybody")

		_, err = patch(ctx, n, "web", `{"metadata":{"annotations":{"`+internalBalancer+`":null}},"spec":{"selector":{"app":"other"}}}`)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() map[string]string { return onHostIs(ctx, n, "web").Annotations }).ShouldNot(HaveKey(internalBalancer))
		Expect(onHostIs(ctx, n, "web").Spec.Type).To(Equal(corev1.ServiceTypeLoadBalancer))
		Eventually(func() error { // what another request changes is tried again
			_, err := patch(ctx, n, "web", `{"spec":{"type":"ClusterIP"}}`)
			return err
		}).Should(Succeed())
		_, err = patch(ctx, n, "web", `{"spec":{"type":"LoadBalancer"}}`)
		Expect(err).To(MatchError(ContainSubstring("workloads.loadBalancers of the Tenant")))
		Eventually(onHostNamespace).ShouldNot(HaveKey(names.LoadBalancersLabel))
		release(ctx, onHostIs(ctx, n, "web"))
	})

	It("count in quotas, without node ports that they have not", func(ctx SpecContext) {
		n := balancing(ctx, "counted", `{"loadBalancers":"Allowed"}`)
		services := tenantry.Client(n).CoreV1().Services("default")
		Expect(tenantry.SetSpec(ctx, n, "quota", `{"services.loadbalancers":"1","services.nodeports":"0"}`)).To(Succeed())
		Eventually(func() error {
			_, err := services.Create(ctx, balanced("one"), metav1.CreateOptions{})
			if err == nil {
				_, err = services.Create(ctx, balanced("two"), metav1.CreateOptions{})
			}
			if err == nil { // the quota is not known yet
				Expect(services.Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
				Expect(services.Delete(ctx, "two", metav1.DeleteOptions{})).To(Succeed())
			}
			return err
		}).WithPolling(time.Second).Should(MatchError(ContainSubstring("exceeded quota: tenant-quota, requested: services.loadbalancers=1")))
		Expect(hostServices(ctx, "one")).To(HaveKey(n.String()))
		Expect(hostServices(ctx, "two")).NotTo(HaveKey(n.String()))
		_, err := services.Create(ctx, plainService("three"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = patch(ctx, n, "three", `{"spec":{"type":"LoadBalancer"}}`)
		Expect(err).To(MatchError(ContainSubstring("exceeded quota: tenant-quota")))
		Expect(onHostIs(ctx, n, "three").Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
	})

	It("are made by identities that make them for Tenants with a grant alone, and without an address of their choice", func(ctx SpecContext) {
		n := balancing(ctx, "labelled", `{"loadBalancers":"Allowed"}`)
		_, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, balanced("web"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = tenantry.Client(acme).CoreV1().Services("default").Create(ctx, plainService("unlabelled"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		granted, refused := onHostIs(ctx, n, "web").Namespace, onHostIs(ctx, acme, "unlabelled").Namespace
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		for _, account := range []string{"connect", "syncer"} {
			stolen := stolen(account)
			_, err = stolen.CoreV1().Services(granted).Create(ctx, balanced("stolen"), dryRun)
			Expect(err).NotTo(HaveOccurred())
			_, err = stolen.CoreV1().Services(refused).Create(ctx, balanced("stolen"), dryRun)
			Expect(err).To(MatchError(ContainSubstring("load balancers are in namespaces with the label workloads.tenantry.io/load-balancers alone")))
			there := onHostIs(ctx, acme, "unlabelled")
			there.Spec.Type = corev1.ServiceTypeLoadBalancer
			_, err = stolen.CoreV1().Services(refused).Update(ctx, there, metav1.UpdateOptions{DryRun: dryRun.DryRun})
			Expect(err).To(MatchError(ContainSubstring("load balancers are in namespaces with the label")))
			there = onHostIs(ctx, n, "web")
			there.Spec.LoadBalancerIP = "203.0.113.1"
			_, err = stolen.CoreV1().Services(granted).Update(ctx, there, metav1.UpdateOptions{DryRun: dryRun.DryRun})
			Expect(err).To(MatchError(ContainSubstring("no addresses from outside that the host does not choose")))
			there = onHostIs(ctx, n, "web")
			there.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "8.8.8.8"}}
			_, err = stolen.CoreV1().Services(granted).UpdateStatus(ctx, there, metav1.UpdateOptions{DryRun: dryRun.DryRun})
			Expect(err).To(Satisfy(apierrors.IsForbidden), "by it, nodes would take what pods send to that address (CVE-2020-8554)")
		}
		_, err = stolen("connect").CoreV1().Namespaces().Patch(ctx, refused, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+names.LoadBalancersLabel+`":"true"}}}`), metav1.PatchOptions{DryRun: dryRun.DryRun})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
	})
})
