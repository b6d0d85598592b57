package workloads

import (
	"context"
	"errors"
	"net"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/dns"
	"github.com/tenantry/tenantry/test/env/suite"
)

// asDNS is the host's ServiceAccount dns.
func asDNS() *rest.Config {
	config := tenantry.Config(tenant.System)
	config.Impersonate.UserName = "system:serviceaccount:tenantry-workloads:dns"
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
	return config
}

// runDNS answers names until the specs have ended, and returns where.
func runDNS() string {
	GinkgoHelper()
	o := dns.NewOptions()
	started := make(chan string, 1)
	o.Host, o.BindAddress, o.LameDuck, o.Forward = asDNS(), "127.0.0.1:0", 1, []string{"127.0.0.1:1"}
	o.Started = func(address string) { started <- address }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- dns.Run(ctx, o) }()
	DeferCleanup(func() {
		cancel()
		Expect(<-ended).To(MatchError(context.Canceled))
	})
	var address string
	Eventually(started).Should(Receive(&address))
	return address
}

// lookup asks from an address, which is that of a pod, and returns the addresses of a name, or why there is none.
func lookup(ctx context.Context, server, from, name string) []string {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "udp", server)
	}}
	addresses, err := resolver.LookupHost(ctx, name)
	var problem *net.DNSError
	switch {
	case errors.As(err, &problem) && problem.IsNotFound:
		return []string{"not found"}
	case err != nil:
		return []string{err.Error()}
	}
	slices.Sort(addresses)
	return addresses
}

// startAt does what a scheduler and a kubelet do for a pod of the host, which gets an address.
func startAt(ctx context.Context, pod *corev1.Pod, address string) {
	GinkgoHelper()
	Eventually(func() error {
		now, err := host.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Phase, now.Status.PodIP, now.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		_, err = host.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

var _ = Describe("DNS of spaces", func() {
	It("has the names of the space of the pod that asks, and no others", func(ctx SpecContext) {
		server := runDNS()
		names := map[tenant.Name]string{}
		for n, address := range map[tenant.Name]string{acme: "127.0.0.21", globex: "127.0.0.22"} {
			client := tenantry.Client(n).CoreV1()
			made, err := client.Services("default").Create(ctx, plainService("named"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			names[n] = made.Spec.ClusterIP
			_, err = client.Pods("default").Create(ctx, plainPod("asks"), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			startAt(ctx, onHost(ctx, n, "asks"), address)
		}
		only, err := tenantry.Client(acme).CoreV1().Services("default").Create(ctx, plainService("only"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		asks := func(from, name string) func() []string {
			return func() []string { return lookup(ctx, server, from, name) }
		}
		Eventually(asks("127.0.0.21", "named.default.svc.cluster.local.")).Should(Equal([]string{names[acme]}))
		Eventually(asks("127.0.0.22", "named.default.svc.cluster.local.")).Should(Equal([]string{names[globex]}))
		Eventually(asks("127.0.0.21", "only.default.svc.cluster.local.")).Should(Equal([]string{only.Spec.ClusterIP}))
		Expect(asks("127.0.0.22", "only.default.svc.cluster.local.")()).To(Equal([]string{"not found"}))
		// The host's own Services have no names in spaces.
		Expect(asks("127.0.0.21", "dns.tenantry-workloads.svc.cluster.local.")()).To(Equal([]string{"not found"}))
		Expect(asks("127.0.0.21", "kubernetes.default.svc.cluster.local.")()).To(Equal([]string{apiAddress}), "the API of the space")

		// An address that another tenant's pod has now.
		before, after := onHost(ctx, acme, "asks"), onHost(ctx, globex, "asks")
		Expect(host.CoreV1().Pods(before.Namespace).Delete(ctx, before.Name, *metav1.NewDeleteOptions(0))).To(Succeed())
		startAt(ctx, after, "127.0.0.21")
		Eventually(asks("127.0.0.21", "named.default.svc.cluster.local.")).Should(Equal([]string{names[globex]}))
		Expect(asks("127.0.0.21", "only.default.svc.cluster.local.")()).To(Equal([]string{"not found"}))
	})

	It("is asked by pods that begin, in the domains of their space", func(ctx SpecContext) {
		there, err := host.CoreV1().Services("tenantry-workloads").Get(ctx, "dns", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = tenantry.Client(acme).CoreV1().Pods("default").Create(ctx, plainPod("searches"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := onHost(ctx, acme, "searches")
		Expect(pod.Spec.DNSPolicy).To(Equal(corev1.DNSNone))
		Expect(pod.Spec.DNSConfig.Nameservers).To(Equal([]string{there.Spec.ClusterIP}))
		Expect(pod.Spec.DNSConfig.Searches).To(Equal([]string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}))
	})

	It("reads, and nothing but names", func(ctx SpecContext) {
		client := suite.Client(asDNS())
		_, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		_, err = client.CoreV1().Pods("default").Create(ctx, plainPod("stolen"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
		_, err = client.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{})
		Expect(err).To(Satisfy(apierrors.IsForbidden))
	})
})
