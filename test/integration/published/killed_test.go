package published

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness/sessions"
)

// process is a "tenantry up" that can be killed.
type process struct {
	binary, dir, port string
	session           *gexec.Session
}

func (p *process) start() {
	GinkgoHelper()
	p.session = sessions.Run(p.binary, "up", "--dir", p.dir, "--secure-port", p.port)
	Eventually(p.session.Out, suite.StartTimeout).Should(gbytes.Say("Tenantry is ready"))
}

func (p *process) kill() {
	GinkgoHelper()
	sessions.Kill(p.session)
}

// client returns a client of the system administrator, in all spaces if root is
// that of all.
func (p *process) client(root string) dynamic.Interface {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dir, "admin.kubeconfig"))
	Expect(err).NotTo(HaveOccurred())
	config.Host += root
	config.QPS = -1
	return suite.Dynamic(config)
}

// copies returns the number of copies that match a label selector.
func (p *process) copies(ctx context.Context, selector string) func() (int, error) {
	client := p.client("/tenants/all").Resource(configMaps)
	return func() (int, error) {
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: tenant.PublishedCopyLabel + selector})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
}

// versions returns the versions of all copies.
func (p *process) versions(ctx context.Context) map[string]string {
	GinkgoHelper()
	list, err := p.client("/tenants/all").Resource(configMaps).List(ctx, metav1.ListOptions{LabelSelector: tenant.PublishedCopyLabel})
	Expect(err).NotTo(HaveOccurred())
	versions := map[string]string{}
	for _, item := range list.Items {
		versions[string(item.GetUID())] = item.GetResourceVersion()
	}
	return versions
}

// eventsSince returns which published objects there are events about since a time.
func (p *process) eventsSince(ctx context.Context, since time.Time) func() ([]string, error) {
	client := p.client("").Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace("default")
	return func() (names []string, err error) {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			event := &corev1.Event{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, event); err != nil {
				return nil, err
			}
			if event.EventTime.After(since) && event.InvolvedObject.Kind == "ConfigMap" {
				names = append(names, event.InvolvedObject.Name)
			}
		}
		return names, nil
	}
}

var _ = Describe("tenantry up, killed", func() {
	It("ends complete what it was doing, and writes nothing twice", func(ctx SpecContext) {
		p := &process{binary: sessions.Tenantry(), dir: filepath.Join(GinkgoT().TempDir(), "state"), port: sessions.FreePort()}
		p.start()
		DeferCleanup(func() { p.kill() })
		const count, all = 40, 40 * spaceCount
		for i := range spaceCount {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Tenant"))
			object.SetName(fmt.Sprintf("t%02d", i))
			_, err := p.client("").Resource(v1alpha1.GroupVersion.WithResource("tenants")).Create(ctx, object, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		change := func(change func(client dynamic.ResourceInterface, object *unstructured.Unstructured) error) {
			GinkgoHelper()
			client := p.client("").Resource(configMaps).Namespace("default")
			for i := range count {
				object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
				object.SetName(fmt.Sprintf("published-%02d", i))
				object.SetAnnotations(isPublished)
				Expect(change(client, object)).To(Succeed())
			}
		}

		By("while it copies")
		change(func(client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
			_, err := client.Create(ctx, object, metav1.CreateOptions{})
			return err
		})
		Eventually(p.copies(ctx, "")).Should(BeNumerically(">", 0))
		p.kill()
		p.start()
		Eventually(p.copies(ctx, "")).Should(Equal(all))

		By("while it edits")
		change(func(client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
			_, err := client.Patch(ctx, object.GetName(), mergePatch, []byte(`{"metadata": {"labels": {"edited": "yes"}}}`), metav1.PatchOptions{})
			return err
		})
		Eventually(p.copies(ctx, ",edited=yes")).Should(BeNumerically(">", 0))
		p.kill()
		p.start()
		Eventually(p.copies(ctx, ",edited=yes")).Should(Equal(all))

		By("while it has nothing to do")
		before := p.versions(ctx)
		p.kill()
		stopped := time.Now()
		p.start()
		_, err := p.client("").Resource(configMaps).Namespace("default").Patch(ctx, "published-00", mergePatch,
			[]byte(`{"metadata": {"labels": {"again": "yes"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(p.copies(ctx, ",again=yes")).Should(Equal(spaceCount))
		written := 0
		for uid, version := range p.versions(ctx) {
			Expect(before).To(HaveKey(uid))
			if before[uid] != version {
				written++
			}
		}
		Expect(written).To(Equal(spaceCount))
		Eventually(p.eventsSince(ctx, stopped)).Should(HaveEach("published-00"))

		By("while it removes")
		change(func(client dynamic.ResourceInterface, object *unstructured.Unstructured) error {
			return client.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
		})
		p.kill()
		p.start()
		Eventually(p.copies(ctx, "")).Should(BeZero())
	}, SpecTimeout(2*specTimeout))
})
