package workloads

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const sliceManager = "syncer.workloads.tenantry.io"

// hostSlices returns the slices of a host's Service.
func hostSlices(ctx context.Context, of *corev1.Service) []discoveryv1.EndpointSlice {
	GinkgoHelper()
	list, err := host.DiscoveryV1().EndpointSlices(of.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + of.Name})
	Expect(err).NotTo(HaveOccurred())
	return list.Items
}

// readyIn returns which addresses are ready in the slices that the syncer has made, and in no others.
func readyIn(all []discoveryv1.EndpointSlice) (ready []string) {
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			if slice.Labels[discoveryv1.LabelManagedBy] == sliceManager && *e.Conditions.Ready {
				ready = append(ready, e.Addresses...)
			}
		}
	}
	return ready
}

// sayReady does what a kubelet does when a probe of a pod changes its mind.
func sayReady(ctx context.Context, pod *corev1.Pod, is corev1.ConditionStatus) {
	GinkgoHelper()
	_, err := host.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, is), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

// behind makes a pod that a Service of the space selects, and starts it on the host.
func behind(ctx context.Context, n tenant.Name, name string) *corev1.Pod {
	GinkgoHelper()
	if _, err := host.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	pod := plainPod(name)
	pod.Labels = map[string]string{"app": name}
	_, err := tenantry.Client(n).CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	there := onHost(ctx, n, name)
	start(ctx, there)
	return there
}

var _ = Describe("Slices of Services on the host", func() {
	It("lead to the pods that the space's select, and end with them", func(ctx SpecContext) {
		services := tenantry.Client(acme).CoreV1().Services("default")
		_, err := services.Create(ctx, plainService("sliced"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod, there := behind(ctx, acme, "sliced"), hostServices(ctx, "sliced")["acme"]
		Expect(there.Spec.Selector).To(BeEmpty())
		ready := func() []string { return readyIn(hostSlices(ctx, there)) }
		Eventually(ready).Should(Equal([]string{"10.0.0.7"}))
		late := plainService("late")
		late.Spec.Selector = map[string]string{"app": "sliced"}
		_, err = services.Create(ctx, late, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() []string { return readyIn(hostSlices(ctx, hostServices(ctx, "late")["acme"])) }).Should(HaveLen(1), "its pod is there already")
		slice := hostSlices(ctx, there)[0]
		Expect(slice.Labels).To(HaveKey(names.InstallationLabel))
		Expect(slice.Endpoints[0].TargetRef.UID).To(Equal(pod.UID))
		sayReady(ctx, pod, corev1.ConditionFalse)
		Eventually(ready).Should(BeEmpty())
		sayReady(ctx, pod, corev1.ConditionTrue)
		Eventually(ready).Should(HaveLen(1))
		_, err = host.CoreV1().Endpoints(there.Namespace).Get(ctx, "sliced", metav1.GetOptions{})
		Expect(err).To(Satisfy(apierrors.IsNotFound))

		Expect(host.DiscoveryV1().EndpointSlices(there.Namespace).Delete(ctx, slice.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ready).Should(HaveLen(1), "what somebody deletes comes back")
		choose := func(app string) {
			_, err := services.Patch(ctx, "sliced", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"selector":{"app":%q}}}`, app), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		choose("other")
		Eventually(ready).Should(BeEmpty())
		choose("sliced")
		Eventually(ready).Should(HaveLen(1))
		Expect(services.Delete(ctx, "sliced", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() []discoveryv1.EndpointSlice { return hostSlices(ctx, there) }).WithTimeout(time.Minute).Should(BeEmpty())
	})

	It("have no addresses that a tenant writes", func(ctx SpecContext) {
		foreign := behind(ctx, globex, "foreign")
		_, err := host.CoreV1().Pods(foreign.Namespace).Patch(ctx, foreign.Name, types.MergePatchType,
			[]byte(`{"status":{"podIP":"10.0.0.77","podIPs":[{"ip":"10.0.0.77"}]}}`), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		client := tenantry.Client(acme)
		unselecting := plainService("unselecting")
		unselecting.Spec.Selector = nil
		_, err = client.CoreV1().Services("default").Create(ctx, unselecting, metav1.CreateOptions{})
		Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("spec.selector"))), "what it leads to would be the tenant's to write")
		_, err = client.CoreV1().Endpoints("default").Create(ctx, &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: "claiming"},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.77"}}, Ports: []corev1.EndpointPort{{Port: 80}}}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: "claiming-own", Labels: map[string]string{discoveryv1.LabelServiceName: "claiming"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.77"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
			Ports:       []discoveryv1.EndpointPort{{Port: new(int32(80))}},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Services("default").Create(ctx, plainService("claiming"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		behind(ctx, acme, "claiming")
		there := hostServices(ctx, "claiming")["acme"]
		Eventually(func() []string { return readyIn(hostSlices(ctx, there)) }).Should(Equal([]string{"10.0.0.7"}), "its own pod is there")
		Consistently(func(g Gomega) {
			all, err := host.DiscoveryV1().EndpointSlices(there.Namespace).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			for _, slice := range all.Items {
				for _, e := range slice.Endpoints {
					g.Expect(e.Addresses).NotTo(ContainElement("10.0.0.77"), slice.Name)
				}
			}
			endpoints, err := host.CoreV1().Endpoints(there.Namespace).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(endpoints.Items).To(BeEmpty())
		}).WithTimeout(3 * time.Second).Should(Succeed())
	})

	It("take the place of those that the host's controllers have made", func(ctx SpecContext) {
		_, err := tenantry.Client(acme).CoreV1().Services("default").Create(ctx, plainService("upgraded"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		behind(ctx, acme, "upgraded")
		there := hostServices(ctx, "upgraded")["acme"]
		endpoints := &corev1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Name: "upgraded", Labels: there.Labels},
			Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.0.0.7"}}, Ports: []corev1.EndpointPort{{Port: 80}}}},
		}
		_, err = host.CoreV1().Endpoints(there.Namespace).Create(ctx, endpoints, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error { // as it was with the version before
			now, err := host.CoreV1().Services(there.Namespace).Get(ctx, "upgraded", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			now.Spec.Selector, now.Annotations[names.HashAnnotation] = map[string]string{"app": "upgraded"}, "of before"
			_, err = host.CoreV1().Services(there.Namespace).Update(ctx, now, metav1.UpdateOptions{})
			return err
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(hostServices(ctx, "upgraded")["acme"].Spec.Selector).To(BeEmpty())
			all := hostSlices(ctx, there)
			g.Expect(readyIn(all)).To(Equal([]string{"10.0.0.7"}))
			g.Expect(all).To(HaveLen(1))
			_, err := host.CoreV1().Endpoints(there.Namespace).Get(ctx, "upgraded", metav1.GetOptions{})
			g.Expect(err).To(Satisfy(apierrors.IsNotFound))
		}).WithTimeout(time.Minute).Should(Succeed())
	})

	It("of one tenant keep no other one's waiting", func(ctx SpecContext) {
		const many = 300
		n := tenantry.NewTenant(ctx, "flapping")
		services := tenantry.Client(n).CoreV1().Services("default")
		for i := range many {
			service := plainService(fmt.Sprint("s-", i))
			service.Spec.Selector = map[string]string{"app": "flaps"}
			Eventually(func() error {
				_, err := services.Create(ctx, service, metav1.CreateOptions{})
				return err
			}).Should(Succeed())
		}
		flaps := behind(ctx, n, "flaps")
		_, err := tenantry.Client(globex).CoreV1().Services("default").Create(ctx, plainService("calm"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		calm, there := behind(ctx, globex, "calm"), hostServices(ctx, "calm")["globex"]
		var changes atomic.Int64
		flapping, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(ended)
			for is := range flips(flapping) {
				sayReady(ctx, flaps, is)
				changes.Add(1)
			}
		}()
		ready := func() []string { return readyIn(hostSlices(ctx, there)) }
		Eventually(changes.Load).Should(BeNumerically(">", 2))
		for range 5 { // others' wait for ten seconds where a host's controllers do it
			sayReady(ctx, calm, corev1.ConditionFalse)
			Eventually(ready).WithTimeout(5 * time.Second).Should(BeEmpty())
			sayReady(ctx, calm, corev1.ConditionTrue)
			Eventually(ready).WithTimeout(5 * time.Second).Should(HaveLen(1))
		}
		stop()
		Eventually(ended).Should(BeClosed())
		sayReady(ctx, flaps, corev1.ConditionTrue)
		Eventually(func() (led int) {
			list, err := host.DiscoveryV1().EndpointSlices(flaps.Namespace).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			return len(readyIn(list.Items))
		}).WithTimeout(2*time.Minute).Should(Equal(many), "in the end, all are right")
	}, SpecTimeout(5*time.Minute))

	It("are written by a stolen credential for pods of spaces alone", func(ctx SpecContext) {
		_, err := tenantry.Client(acme).CoreV1().Services("default").Create(ctx, plainService("slicing"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		there := hostServices(ctx, "slicing")["acme"]
		try := func(namespace string, change func(*discoveryv1.EndpointSlice)) error {
			slice := &discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "stolen", Labels: maps.Clone(there.Labels),
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(there, corev1.SchemeGroupVersion.WithKind("Service"))}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []discoveryv1.Endpoint{{
					Addresses: []string{"10.0.0.7"}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: there.Namespace, Name: "p"},
				}},
			}
			slice.Labels[discoveryv1.LabelManagedBy], slice.Labels[discoveryv1.LabelServiceName] = sliceManager, there.Name
			change(slice)
			_, err := stolen("syncer").DiscoveryV1().EndpointSlices(namespace).Create(ctx, slice, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		Eventually(func() error { return try(there.Namespace, func(*discoveryv1.EndpointSlice) {}) }).Should(Succeed())
		Expect(try("default", func(*discoveryv1.EndpointSlice) {})).To(Satisfy(apierrors.IsForbidden))
		for what, change := range map[string]func(*discoveryv1.EndpointSlice){
			"a name": func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints[0].Addresses = discoveryv1.AddressTypeFQDN, []string{"example.com"}
			},
			"somebody else's": func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "somebody" },
			"two addresses": func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, "10.0.0.8")
			},
			"no pod":              func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef = nil },
			"a node":              func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Kind = "Node" },
			"another namespace's": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Namespace = "default" },
		} {
			Expect(try(there.Namespace, change)).To(MatchError(ContainSubstring("slices of spaces lead to pods of their namespace")), what)
		}
		for what, change := range map[string]func(*discoveryv1.EndpointSlice){
			"of nobody":                 func(s *discoveryv1.EndpointSlice) { delete(s.Labels, names.InstallationLabel) },
			"another installation's":    func(s *discoveryv1.EndpointSlice) { s.Labels[names.InstallationLabel] = "other" },
			"without a Service":         func(s *discoveryv1.EndpointSlice) { s.OwnerReferences = nil },
			"owned, and not taken away": func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Controller = nil },
			"another Service's":         func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Name = "other" },
			"a pod's":                   func(s *discoveryv1.EndpointSlice) { s.OwnerReferences[0].Kind = "Pod" },
		} {
			Expect(try(there.Namespace, change)).To(MatchError(ContainSubstring("slices of spaces have the label of their installation")), what)
		}
	})
})

// flips returns readiness that changes each second, until ctx ends.
func flips(ctx context.Context) func(yield func(corev1.ConditionStatus) bool) {
	return func(yield func(corev1.ConditionStatus) bool) {
		for i := 0; ctx.Err() == nil; i++ {
			if !yield([]corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue}[i%2]) {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}
