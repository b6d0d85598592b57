package workloads

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/env/suite"
)

// plainIngress leads from a host to a Service.
func plainIngress(name, hostName string) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{Host: hostName, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
		}}}}},
	}
}

// hostIngresses returns the host's Ingresses of a name, by their tenants.
func hostIngresses(ctx context.Context, name string) map[string]*networkingv1.Ingress {
	GinkgoHelper()
	list, err := host.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel})
	Expect(err).NotTo(HaveOccurred())
	found := map[string]*networkingv1.Ingress{}
	for i := range list.Items {
		if list.Items[i].Name == name {
			found[list.Items[i].Annotations[names.TenantAnnotation]] = &list.Items[i]
		}
	}
	return found
}

// routing returns a tenant that may have a host name, with a Service.
func routing(ctx context.Context, name string) tenant.Name {
	GinkgoHelper()
	n := tenantry.NewTenant(ctx, name)
	Expect(tenantry.SetSpec(ctx, n, "workloads", `{"hostNames":["*.`+n.String()+`.example.com"],"ingressClasses":["nginx"]}`)).To(Succeed())
	_, err := tenantry.Client(n).CoreV1().Services("default").Create(ctx, plainService("web"), metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { // the server knows what the Tenant may
		_, err := tenantry.Client(n).NetworkingV1().Ingresses("default").Create(ctx, plainIngress("dry", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}).Should(Satisfy(apierrors.IsForbidden))
	return n
}

var _ = Describe("Ingresses of spaces", func() {
	It("are on the host within the names of their Tenant, and say where they are served", func(ctx SpecContext) {
		one, two := routing(ctx, "routed"), routing(ctx, "routed")
		for _, n := range []tenant.Name{one, two} {
			ingresses := tenantry.Client(n).NetworkingV1().Ingresses("default")
			for _, other := range []tenant.Name{one, two} {
				_, err := ingresses.Create(ctx, plainIngress("web", "shop."+other.String()+".example.com"), metav1.CreateOptions{})
				if other == n {
					Expect(err).NotTo(HaveOccurred())
				} else {
					Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("workloads.hostNames of the Tenant"))))
				}
			}
			Eventually(func() *networkingv1.Ingress { return hostIngresses(ctx, "web")[n.String()] }).ShouldNot(BeNil())
			there := hostIngresses(ctx, "web")[n.String()]
			Expect(there.Spec.Rules[0].Host).To(Equal("shop." + n.String() + ".example.com"))
			Expect(*there.Spec.IngressClassName).To(Equal("nginx"))

			there.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{Hostname: n.String() + ".balancer.example.com"}}
			_, err := host.NetworkingV1().Ingresses(there.Namespace).UpdateStatus(ctx, there, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(func(g Gomega) {
				got, err := ingresses.Get(ctx, "web", metav1.GetOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got.Status.LoadBalancer.Ingress).To(Equal(there.Status.LoadBalancer.Ingress))
			}).Should(Succeed())
		}
		Expect(tenantry.Client(one).NetworkingV1().Ingresses("default").Delete(ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() *networkingv1.Ingress { return hostIngresses(ctx, "web")[one.String()] }).Should(BeNil())
		Expect(hostIngresses(ctx, "web")).To(HaveKey(two.String()))
	})

	It("leave the host when their Tenant has not their names any more, and say so", func(ctx SpecContext) {
		n := routing(ctx, "revoked")
		client := tenantry.Client(n)
		_, err := client.NetworkingV1().Ingresses("default").Create(ctx, plainIngress("web", "shop."+n.String()+".example.com"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := func() bool { return hostIngresses(ctx, "web")[n.String()] != nil }
		Eventually(there).Should(BeTrue())
		opened := func() int {
			policy, err := host.NetworkingV1().NetworkPolicies(hostServices(ctx, "web")[n.String()].Namespace).Get(ctx, "tenantry-open-ingress", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			return len(policy.Spec.Ingress[0].From)
		}
		before := opened()
		for _, spec := range []string{`{"hostNames":["other.example.com"],"ingressClasses":["nginx"]}`, `null`} {
			Expect(tenantry.SetSpec(ctx, n, "workloads", spec)).To(Succeed())
			Eventually(there).Should(BeFalse())
		}
		Eventually(opened).Should(Equal(before-1), "what serves Ingresses reaches the pods no more")
		Eventually(func(g Gomega) {
			events, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Ingress,reason=RefusedByHost"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).NotTo(BeEmpty())
			g.Expect(events.Items[0].Message).To(ContainSubstring("workloads.hostNames of the Tenant"))
		}).Should(Succeed())
		Expect(tenantry.SetSpec(ctx, n, "workloads", `{"hostNames":["*.`+n.String()+`.example.com"],"ingressClasses":["nginx"]}`)).To(Succeed())
		Eventually(there).Should(BeTrue())
	})

	It("of Tenants without host names are in their space alone", func(ctx SpecContext) {
		client := tenantry.Client(acme)
		_, err := client.CoreV1().Services("default").Create(ctx, plainService("unrouted"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.NetworkingV1().Ingresses("default").Create(ctx, plainIngress("unrouted", ""), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		n := routing(ctx, "later")
		_, err = tenantry.Client(n).NetworkingV1().Ingresses("default").Create(ctx, plainIngress("unrouted", "a."+n.String()+".example.com"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() map[string]*networkingv1.Ingress { return hostIngresses(ctx, "unrouted") }).Should(HaveKey(n.String()))
		Expect(hostIngresses(ctx, "unrouted")).NotTo(HaveKey("acme"))
	})

	It("have their certificates on the host, if these are for names of the Tenant", func(ctx SpecContext) {
		n := routing(ctx, "secured")
		client := tenantry.Client(n)
		secrets := client.CoreV1().Secrets("default")
		certificate := func(name string) *corev1.Secret {
			certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
			Expect(err).NotTo(HaveOccurred())
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "cert"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": certificate, "tls.key": key}}
		}
		secured := plainIngress("web", "shop."+n.String()+".example.com")
		secured.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{secured.Spec.Rules[0].Host}, SecretName: "cert"}}
		_, err := secrets.Create(ctx, certificate("shop.globex.example.com"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.NetworkingV1().Ingresses("default").Create(ctx, secured, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() *networkingv1.Ingress { return hostIngresses(ctx, "web")[n.String()] }).ShouldNot(BeNil())
		there := hostIngresses(ctx, "web")[n.String()]
		Expect(there.Spec.TLS[0].SecretName).To(Equal("tnc-cert"))
		_, err = host.CoreV1().Secrets(there.Namespace).Get(ctx, "tnc-cert", metav1.GetOptions{})
		Expect(err).To(Satisfy(apierrors.IsNotFound))
		Eventually(func(g Gomega) {
			events, err := client.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Ingress"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(events.Items).NotTo(BeEmpty())
			g.Expect(events.Items[0].Message).To(ContainSubstring("which is not one of the host names of this Tenant"))
		}).Should(Succeed())
		_, err = secrets.Update(ctx, certificate("shop."+n.String()+".example.com"), metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) {
			copied, err := host.CoreV1().Secrets(there.Namespace).Get(ctx, "tnc-cert", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(copied.Type).To(Equal(corev1.SecretTypeTLS))
		}).Should(Succeed())
		Expect(client.NetworkingV1().Ingresses("default").Delete(ctx, "web", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() error {
			_, err := host.CoreV1().Secrets(there.Namespace).Get(ctx, "tnc-cert", metav1.GetOptions{})
			return err
		}).Should(Satisfy(apierrors.IsNotFound))
	})

	It("count in quotas", func(ctx SpecContext) {
		n := routing(ctx, "counted")
		Expect(tenantry.SetSpec(ctx, n, "quota", `{"count/ingresses.networking.k8s.io":"0"}`)).To(Succeed())
		Eventually(func() error {
			_, err := tenantry.Client(n).NetworkingV1().Ingresses("default").Create(ctx, plainIngress("web", "a."+n.String()+".example.com"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}).Should(MatchError(ContainSubstring("exceeded quota: tenant-quota, requested: count/ingresses.networking.k8s.io=1")))
	})

	It("are made by an identity that can make none that take everything", func(ctx SpecContext) {
		n := routing(ctx, "bounded")
		namespace := hostServices(ctx, "web")[n.String()].Namespace
		config := tenantry.Config(tenant.System)
		config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:syncer"
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
		stolen := suite.Client(config)
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		for what, change := range map[string]func(*networkingv1.Ingress){
			"a class":           func(i *networkingv1.Ingress) { i.Spec.IngressClassName = nil },
			"a host":            func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "" },
			"no backend beside": func(i *networkingv1.Ingress) { i.Spec.DefaultBackend = &i.Spec.Rules[0].HTTP.Paths[0].Backend },
			"no class of before": func(i *networkingv1.Ingress) {
				i.Annotations = map[string]string{"kubernetes.io/ingress.class": "nginx"}
			},
			"a Service": func(i *networkingv1.Ingress) {
				i.Spec.Rules[0].HTTP.Paths[0].Backend = networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{APIGroup: new("example.com"), Kind: "B", Name: "b"}}
			},
			"hosts of certificates": func(i *networkingv1.Ingress) { i.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "s"}} },
		} {
			ingress := plainIngress("stolen", "a.example.com")
			ingress.Spec.IngressClassName = new("nginx")
			change(ingress)
			_, err := stolen.NetworkingV1().Ingresses(namespace).Create(ctx, ingress, dryRun)
			Expect(err).To(MatchError(ContainSubstring("Ingresses of spaces have a class, and hosts, and lead to Services")), what)
		}
		ingress := plainIngress("fine", "a.example.com")
		ingress.Spec.IngressClassName = new("nginx")
		_, err := stolen.NetworkingV1().Ingresses(namespace).Create(ctx, ingress, dryRun)
		Expect(err).NotTo(HaveOccurred())
		_, err = stolen.NetworkingV1().Ingresses("default").Create(ctx, ingress, dryRun)
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		outside := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "kubernetes.default.svc"}}
		_, err = stolen.CoreV1().Services(namespace).Create(ctx, outside, dryRun)
		Expect(err).To(MatchError(ContainSubstring("lead to their pods, and to no name")))
		_, err = stolen.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, []byte(`{"metadata":{"labels":{"tenantry.io/ingress-controller":"true"}}}`), metav1.PatchOptions{DryRun: dryRun.DryRun})
		Expect(err).To(MatchError(ContainSubstring("what serves Ingresses is not in a namespace of a space")))
	})

	It("lead to Services whose names outside are not on the host", func(ctx SpecContext) {
		outside := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "kubernetes.default.svc.cluster.local"}}
		made, err := tenantry.Client(acme).CoreV1().Services("default").Create(ctx, outside, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Spec.ExternalName).To(Equal("kubernetes.default.svc.cluster.local"))
		there := hostServices(ctx, "elsewhere")["acme"]
		Expect(there.Spec.ExternalName).To(Equal(names.NoHost))
		Expect(there.Annotations).To(HaveKeyWithValue(names.ExternalNameAnnotation, made.Spec.ExternalName))
	})
})
