package workloads

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

// hostServices returns the host's Services of a name, by their tenants.
func hostServices(ctx context.Context, name string) map[string]*corev1.Service {
	GinkgoHelper()
	list, err := host.CoreV1().Services("").List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]*corev1.Service{}
	for i := range list.Items {
		if list.Items[i].Name == name {
			found[list.Items[i].Annotations[names.TenantAnnotation]] = &list.Items[i]
		}
	}
	return found
}

func plainService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// applied is plainService for server-side apply.
func applied(namespace, name string) *applycorev1.ServiceApplyConfiguration {
	return applycorev1.Service(name, namespace).WithSpec(applycorev1.ServiceSpec().
		WithSelector(map[string]string{"app": name}).WithPorts(applycorev1.ServicePort().WithPort(80)))
}

var byTest = metav1.ApplyOptions{FieldManager: "test", Force: true}

var _ = Describe("Services of spaces", func() {
	It("have the host's addresses at once, in each tenant its own", func(ctx SpecContext) {
		addresses := map[string]bool{}
		for _, n := range []tenant.Name{acme, globex} {
			made, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, plainService("same"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			there := hostServices(ctx, "same")[n.String()]
			Expect(there).NotTo(BeNil())
			Expect(made.Spec.ClusterIP).To(Equal(there.Spec.ClusterIP))
			Expect(made.Annotations).To(HaveKeyWithValue(names.HostUIDAnnotation, string(there.UID)))
			Expect(there.Annotations).To(HaveKeyWithValue(names.UIDAnnotation, string(made.UID)))
			addresses[made.Spec.ClusterIP] = true
		}
		Expect(addresses).To(HaveLen(2))
	})

	It("keep UID and address when they are applied again, and end on the host", func(ctx SpecContext) {
		services := tenantry.Client(acme).CoreV1().Services("default")
		first, err := services.Apply(ctx, applied("default", "applied"), byTest)
		Expect(err).NotTo(HaveOccurred())
		there := hostServices(ctx, "applied")["acme"]
		Expect(there.Spec.ClusterIP).To(Equal(first.Spec.ClusterIP))
		again := applied("default", "applied")
		again.Spec.WithSessionAffinity(corev1.ServiceAffinityClientIP)
		second, err := services.Apply(ctx, again, byTest)
		Expect(err).NotTo(HaveOccurred())
		Expect(second.UID).To(Equal(first.UID))
		Expect(second.Spec.ClusterIP).To(Equal(first.Spec.ClusterIP))
		Eventually(func() corev1.ServiceAffinity { return hostServices(ctx, "applied")["acme"].Spec.SessionAffinity }).Should(Equal(corev1.ServiceAffinityClientIP))
		Expect(hostServices(ctx, "applied")["acme"].UID).To(Equal(there.UID))

		Expect(services.Delete(ctx, "applied", metav1.DeleteOptions{})).To(Succeed())
		made, err := services.Create(ctx, plainService("applied"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred(), "it waits for the end of its predecessor on the host")
		Expect(made.UID).NotTo(Equal(first.UID))
		Expect(services.Delete(ctx, "applied", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() map[string]*corev1.Service { return hostServices(ctx, "applied") }).Should(BeEmpty())
	})

	It("are not on the host if they are not stored, by whatever verb", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "full")
		client := tenantry.Client(n)
		services := client.CoreV1().Services("default")
		_, err := client.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("0")}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			_, err := services.Create(ctx, plainService("beyond"), metav1.CreateOptions{})
			return err
		}).Should(MatchError(ContainSubstring("exceeded quota")))
		_, err = services.Apply(ctx, applied("default", "beyond"), byTest)
		Expect(err).To(MatchError(ContainSubstring("exceeded quota")))
		Expect(hostServices(ctx, "beyond")).To(BeEmpty())
	})

	It("are not on the host after a dry run", func(ctx SpecContext) {
		made, err := tenantry.Client(acme).CoreV1().Services("default").Create(ctx, plainService("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.ClusterIP).To(Equal("192.0.2.1"))
		Expect(hostServices(ctx, "dry")).To(BeEmpty())
	})

	It("have an address that the host has free, and no other one", func(ctx SpecContext) {
		services := tenantry.Client(acme).CoreV1().Services("default")
		taken, err := host.CoreV1().Services("default").Create(ctx, plainService("taken"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		wants := plainService("wants")
		wants.Spec.ClusterIP = taken.Spec.ClusterIP
		_, err = services.Create(ctx, wants, metav1.CreateOptions{})
		Expect(err).To(MatchError(And(ContainSubstring("spec.clusterIPs"), ContainSubstring("already allocated"))))
		Expect(host.CoreV1().Services("default").Delete(ctx, "taken", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := services.Create(ctx, wants, metav1.CreateOptions{})
			return err
		}).Should(Succeed())
		Expect(hostServices(ctx, "wants")["acme"].Spec.ClusterIP).To(Equal(taken.Spec.ClusterIP))
	})

	It("have node ports where the Tenant may, also when they change", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "ports")
		services := tenantry.Client(n).CoreV1().Services("default")
		_, err := services.Create(ctx, plainService("ports"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		toNodePort := func() (*corev1.Service, error) {
			return services.Patch(ctx, "ports", types.MergePatchType, []byte(`{"spec":{"type":"NodePort"}}`), metav1.PatchOptions{})
		}
		_, err = toNodePort()
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("workloads.nodePorts of the Tenant"))))
		Expect(tenantry.SetSpec(ctx, n, "workloads", `{"nodePorts":"Allowed"}`)).To(Succeed())
		var changed *corev1.Service
		Eventually(func() (err error) { changed, err = toNodePort(); return err }).Should(Succeed())
		Expect(changed.Spec.Ports[0].NodePort).NotTo(BeZero())
		there := hostServices(ctx, "ports")[n.String()]
		Expect(there.Spec.Type).To(Equal(corev1.ServiceTypeNodePort))
		Expect(there.Spec.Ports[0].NodePort).To(Equal(changed.Spec.Ports[0].NodePort))
		Eventually(func() map[string]string { return hostServices(ctx, "ports")[n.String()].Annotations }).ShouldNot(HaveKey(names.ChangeAnnotation))
		back, err := services.Patch(ctx, "ports", types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP"}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(back.Spec.Ports[0].NodePort).To(BeZero())
		Expect(back.Spec.ClusterIP).To(Equal(changed.Spec.ClusterIP))
		Expect(hostServices(ctx, "ports")[n.String()].Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
	})

	It("leave the host's ports alone when a quota refuses them, whichever it is", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "noports")
		client := tenantry.Client(n)
		services := client.CoreV1().Services("default")
		Expect(tenantry.SetSpec(ctx, n, "workloads", `{"nodePorts":"Allowed"}`)).To(Succeed())
		made, err := services.Create(ctx, plainService("beyond"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		patch := func(kind string) error {
			_, err := services.Patch(ctx, "beyond", types.MergePatchType, []byte(`{"spec":{"type":"`+kind+`"}}`), metav1.PatchOptions{})
			return err
		}
		beyond := func(g Gomega) error {
			err := patch("NodePort")
			if err == nil { // the quota is not known yet
				g.Expect(patch("ClusterIP")).To(Succeed())
				g.Eventually(func() map[string]string { return hostServices(ctx, "beyond")[n.String()].Annotations }).ShouldNot(HaveKey(names.ChangeAnnotation))
			}
			return err
		}
		unchanged := func() {
			GinkgoHelper()
			there := hostServices(ctx, "beyond")[n.String()]
			Expect(there.Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
			Expect(there.Spec.ClusterIP).To(Equal(made.Spec.ClusterIP))
			Expect(there.Spec.Ports[0].NodePort).To(BeZero())
			Expect(there.Annotations).NotTo(HaveKey(names.ChangeAnnotation))
		}
		none := corev1.ResourceList{"services.nodeports": resource.MustParse("0")}
		_, err = client.CoreV1().ResourceQuotas("default").Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(beyond).Should(MatchError(ContainSubstring("exceeded quota: none")))
		unchanged()

		Expect(client.CoreV1().ResourceQuotas("default").Delete(ctx, "none", metav1.DeleteOptions{})).To(Succeed())
		Expect(tenantry.SetSpec(ctx, n, "quota", `{"services.nodeports":"0"}`)).To(Succeed())
		Eventually(beyond).Should(MatchError(ContainSubstring("exceeded quota: tenant-quota")))
		unchanged()
	})

	It("have nothing that could take others' traffic", func(ctx SpecContext) {
		services := tenantry.Client(acme).CoreV1().Services("default")
		for field, change := range map[string]func(*corev1.Service){
			"spec.externalIPs": func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"8.8.8.8"} },
			"spec.selector":    func(s *corev1.Service) { s.Spec.Selector = nil },
		} {
			service := plainService("refused")
			change(service)
			_, err := services.Create(ctx, service, metav1.CreateOptions{})
			Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring(field))))
		}
		outside := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}}
		_, err := services.Create(ctx, outside, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(hostServices(ctx, "refused")).To(BeEmpty())
	})

	It("have the addresses of their pods in the space", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		_, err := client.CoreV1().Services("default").Create(ctx, plainService("behind"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := plainPod("behind")
		pod.Labels = map[string]string{"app": "behind"}
		_, err = client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		start(ctx, onHost(ctx, acme, "behind"))
		Eventually(func(g Gomega) {
			list, err := client.DiscoveryV1().EndpointSlices("default").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=behind"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(slices.ContainsFunc(list.Items, func(s discoveryv1.EndpointSlice) bool {
				return len(s.Endpoints) == 1 && s.Endpoints[0].Addresses[0] == "10.0.0.7" && *s.Endpoints[0].Conditions.Ready
			})).To(BeTrue())
		}).Should(Succeed())
	})

	It("are made by an identity that can make none elsewhere, or from outside", func(ctx SpecContext) {
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:connect"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Client(config)
		_, err := stolen.CoreV1().Services("default").Create(ctx, plainService("stolen"), metav1.CreateOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		_, err = tenantry.Client(acme).CoreV1().Services("default").Create(ctx, plainService("bounded"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := hostServices(ctx, "bounded")["acme"]
		outside := plainService("stolen")
		outside.Spec.ExternalIPs = []string{"8.8.8.8"}
		Eventually(func() error { // the policy holds some time after it has been made
			_, err := stolen.CoreV1().Services(there.Namespace).Create(ctx, outside, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("Services of spaces have no addresses from outside")))
		_, err = stolen.CoreV1().Pods(there.Namespace).Create(ctx, plainPod("stolen"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(Satisfy(apierrors.IsForbidden))

		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		_, err = suite.Client(config).CoreV1().Pods(there.Namespace).Create(ctx, plainPod("stolen"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(MatchError(ContainSubstring("pods of spaces have no token of the host")))
		asks := plainPod("stolen")
		asks.Spec.AutomountServiceAccountToken = new(false)
		certified := asks.DeepCopy()
		certified.Spec.DNSPolicy = corev1.DNSDefault
		certified.Spec.Volumes = []corev1.Volume{{Name: "certificate", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519", CredentialBundlePath: "bundle"}}},
		}}}}
		_, err = suite.Client(config).CoreV1().Pods(there.Namespace).Create(ctx, certified, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(MatchError(ContainSubstring("pods of spaces have no token of the host, and no certificate")))
		_, err = suite.Client(config).CoreV1().Pods(there.Namespace).Create(ctx, asks, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(MatchError(ContainSubstring("pods of spaces do not ask the host's DNS")))
	})

	It("of a namespace that has nothing on the host yet bring it there", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "first")
		made, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, plainService("first"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(hostServices(ctx, "first")[n.String()].Spec.ClusterIP).To(Equal(made.Spec.ClusterIP))
	})
})
