package replicas

import (
	"context"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

var _ = Describe("Two servers and two managers on one etcd", Ordered, func() {
	const namespace = metav1.NamespaceDefault
	var (
		servers  [2]*server
		managers [2]*gexec.Session
	)
	create := func(ctx context.Context, s *server, n tenant.Name, name string) *corev1.ConfigMap {
		GinkgoHelper()
		object, err := s.client(n).CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "replicas"}}, Data: map[string]string{"in": n.String()},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return object
	}

	BeforeAll(func(ctx SpecContext) {
		// The second server runs the controllers of Kubernetes, and by way of it the
		// first manager leads.
		servers[1] = startServer(recording)
		servers[1].ready(ctx)
		managers[0] = startManager(servers[1])
		for _, lease := range []string{controllersLease, managersLease} {
			Eventually(holder).WithContext(ctx).WithArguments(servers[1], lease).WithTimeout(startTimeout).ShouldNot(BeEmpty())
		}
		servers[0] = startServer(recording)
		servers[0].ready(ctx)
		managers[1] = startManager(servers[0])
		DeferCleanup(func() { sessions.Kill(servers[0].session, managers[1]) }) // the others have ended
	}, NodeTimeout(startTimeout))

	It("make a Tenant that is applied through the one ready through the other", func(ctx SpecContext) {
		for i, n := range []tenant.Name{"acme", "other"} {
			applyTenant(ctx, servers[i], n)
			waitReady(ctx, servers[1-i], n)
			for _, s := range servers {
				_, err := s.client(n).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}, SpecTimeout(specTimeout))

	It("admit exactly what a tenant's quota allows", func(ctx SpecContext) {
		shareQuota(ctx, "other", servers[:]...)
	}, SpecTimeout(specTimeout))

	It("say together what a tenant has stored and asked", func(ctx SpecContext) {
		const n = tenant.Name("acme")
		told := func(g Gomega) (requests int64) {
			objects, _, _ := storedBy(ctx, "/registry", n)
			counted, _ := usageOf(ctx, servers[0], n)
			g.Expect(counted).To(Equal(objects))
			return requestsOf(ctx, servers[0], n)
		}
		before := int64(len(servers)) // a list by way of each, when the tenant was made
		Eventually(func(g Gomega) { g.Expect(told(g)).To(Equal(before)) }).WithTimeout(startTimeout).Should(Succeed())
		for i := range 10 {
			create(ctx, servers[i%2], n, "counted-"+strconv.Itoa(i))
		}
		Eventually(func(g Gomega) { g.Expect(told(g)).To(Equal(before + 10)) }).WithTimeout(startTimeout).Should(Succeed())
		for i := range 10 {
			Expect(servers[(i+1)%2].client(n).CoreV1().ConfigMaps(namespace).Delete(ctx, "counted-"+strconv.Itoa(i), metav1.DeleteOptions{})).To(Succeed())
		}
		Eventually(func(g Gomega) { g.Expect(told(g)).To(Equal(before + 20)) }).WithTimeout(startTimeout).Should(Succeed())
	}, SpecTimeout(specTimeout))

	It("show what is written through the one in reads and watches of the other", func(ctx SpecContext) {
		for i, n := range []tenant.Name{"acme", tenant.System, "other"} {
			writer, reader := servers[i%2], servers[1-i%2]
			maps := reader.client(n).CoreV1().ConfigMaps(namespace)
			list, err := maps.List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			events, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "test=replicas"})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(events.Stop)

			written := create(ctx, writer, n, "written")
			read, err := maps.Get(ctx, "written", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(read).To(Equal(written))
			list, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "test=replicas"})
			Expect(err).NotTo(HaveOccurred())
			Expect(list.Items).To(ConsistOf(*written))
			// From the cache, which must be as new as was asked for.
			list, err = maps.List(ctx, metav1.ListOptions{
				LabelSelector: "test=replicas", ResourceVersion: written.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(list.Items).To(ConsistOf(*written))

			// An update on the reader's side that knows the other's write.
			read.Data["in"] = "changed"
			_, err = maps.Update(ctx, read, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = writer.client(n).CoreV1().ConfigMaps(namespace).Update(ctx, written, metav1.UpdateOptions{})
			Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
			Expect(writer.client(n).CoreV1().ConfigMaps(namespace).Delete(ctx, "written", metav1.DeleteOptions{})).To(Succeed())
			for _, expected := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				var event watch.Event
				Eventually(events.ResultChan()).WithTimeout(startTimeout).Should(Receive(&event))
				Expect(event.Type).To(Equal(expected))
				Expect(event.Object.(*corev1.ConfigMap).UID).To(Equal(written.UID), "an event of another space")
			}
		}
	}, SpecTimeout(specTimeout))

	It("continue each other's lists, in the same space alone", func(ctx SpecContext) {
		spaces := []tenant.Name{"acme", "other", tenant.System}
		tokens := map[tenant.Name]string{}
		for _, n := range spaces {
			for _, name := range []string{"page-1", "page-2", "page-3"} {
				create(ctx, servers[0], n, name)
			}
			first, err := servers[0].client(n).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: "test=replicas", Limit: 1})
			Expect(err).NotTo(HaveOccurred())
			Expect(namesOf(first)).To(Equal([]string{"page-1"}))
			tokens[n] = first.Continue
		}
		for _, of := range spaces {
			for _, in := range spaces {
				for _, s := range servers {
					rest, err := s.client(in).CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: "test=replicas", Limit: 5, Continue: tokens[of]})
					if of != in {
						Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "token of %s in %s: %v", of, in, err)
						continue
					}
					Expect(err).NotTo(HaveOccurred())
					Expect(namesOf(rest)).To(Equal([]string{"page-2", "page-3"}))
					for _, item := range rest.Items {
						Expect(item.Data).To(HaveKeyWithValue("in", in.String()))
					}
				}
			}
		}
	}, SpecTimeout(specTimeout))

	It("end what runs in a space through the one when its tenant is deleted through the other", func(ctx SpecContext) {
		applyTenant(ctx, servers[0], "gone")
		waitReady(ctx, servers[1], "gone")
		create(ctx, servers[1], "gone", "left")
		client := servers[1].client("gone")
		// One of a single namespace would end with that, earlier.
		events, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{LabelSelector: "test=none"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Stop)
		Expect(servers[0].dynamic(tenant.System).Resource(tenants).Delete(ctx, "gone", metav1.DeleteOptions{})).To(Succeed())
		Eventually(events.ResultChan()).WithContext(ctx).WithTimeout(specTimeout).Should(BeClosed())
		_, err = client.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		for key := range etcd.stored(ctx, "/registry/") {
			Expect(key).NotTo(ContainSubstring("/gone/"))
		}
	}, SpecTimeout(specTimeout))

	It("have one manager after the other", func(ctx SpecContext) {
		before := holder(ctx, servers[0], managersLease)
		sessions.End(managers[0])
		Eventually(holder).WithContext(ctx).WithArguments(servers[0], managersLease).WithTimeout(specTimeout).ShouldNot(Or(BeEmpty(), Equal(before)))
		applyTenant(ctx, servers[1], "next")
		waitReady(ctx, servers[0], "next")
		create(ctx, servers[1], "next", "works")
	}, SpecTimeout(specTimeout))

	It("go on when one of the servers is gone", func(ctx SpecContext) {
		acme := servers[0].client("acme").CoreV1().ConfigMaps(namespace)
		events, err := acme.Watch(ctx, metav1.ListOptions{LabelSelector: "test=replicas", FieldSelector: "metadata.name=later"})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(events.Stop)
		before := holder(ctx, servers[0], controllersLease)

		By("having all that the other has acknowledged")
		acknowledged := writeUntilFailure(ctx, servers[1].client("other").CoreV1().ConfigMaps(namespace))
		var names []string
		for range 20 {
			names = append(names, <-acknowledged)
		}
		sessions.Kill(servers[1].session)
		for name := range acknowledged {
			names = append(names, name)
		}
		written, err := servers[0].client("other").CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(namesOf(written)).To(ContainElements(names))

		By("serving those who watch and write")
		later := create(ctx, servers[0], "acme", "later")
		var event watch.Event
		Eventually(events.ResultChan()).WithTimeout(startTimeout).Should(Receive(&event))
		Expect(event.Object.(*corev1.ConfigMap).UID).To(Equal(later.UID))
		applyTenant(ctx, servers[0], "last")
		waitReady(ctx, servers[0], "last")

		By("running the controllers of Kubernetes in the server that is left")
		Eventually(holder).WithContext(ctx).WithArguments(servers[0], controllersLease).WithTimeout(specTimeout).ShouldNot(Or(BeEmpty(), Equal(before)))
		namespaces := servers[0].client("last").CoreV1().Namespaces()
		_, err = namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(namespaces.Delete(ctx, "short-lived", metav1.DeleteOptions{})).To(Succeed())
		Eventually(func(ctx context.Context) bool {
			_, err := namespaces.Get(ctx, "short-lived", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).WithTimeout(specTimeout).Should(BeTrue())
	}, SpecTimeout(specTimeout))
})

// writeUntilFailure creates objects until that fails and tells the names of those
// that are acknowledged.
func writeUntilFailure(ctx context.Context, client coreclient.ConfigMapInterface) <-chan string {
	acknowledged := make(chan string)
	go func() {
		defer close(acknowledged)
		for i := 0; ; i++ {
			name := "load-" + strconv.Itoa(i)
			if _, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				return
			}
			acknowledged <- name
		}
	}()
	return acknowledged
}

const (
	managersLease    = "tenantry-manager"
	controllersLease = "tenantry-controllers"
)

// holder returns who holds a lease, or nothing.
func holder(ctx context.Context, s *server, lease string) string {
	held, err := s.client(tenant.System).CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil || held.Spec.HolderIdentity == nil {
		return ""
	}
	return *held.Spec.HolderIdentity
}

var tenants = v1alpha1.GroupVersion.WithResource("tenants")

func applyTenant(ctx context.Context, s *server, n tenant.Name) {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Tenant"))
	object.SetName(n.String())
	_, err := s.dynamic(tenant.System).Resource(tenants).Apply(ctx, n.String(), object, metav1.ApplyOptions{FieldManager: "test"})
	Expect(err).NotTo(HaveOccurred())
}

func waitReady(ctx context.Context, s *server, n tenant.Name) {
	GinkgoHelper()
	client := s.dynamic(tenant.System).Resource(tenants)
	Eventually(func(ctx context.Context) (bool, error) {
		object, err := client.Get(ctx, n.String(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		var t v1alpha1.Tenant
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &t); err != nil {
			return false, err
		}
		return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionReady), nil
	}).WithContext(ctx).WithTimeout(specTimeout).Should(BeTrue())
}

func namesOf(list *corev1.ConfigMapList) []string {
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names
}
