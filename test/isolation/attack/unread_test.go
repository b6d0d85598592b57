package attack

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tenantry/tenantry/internal/tenant"
)

// unreadWatches hold more of the events than a tenant's watches may, by default.
const unreadWatches = 14

var _ = Describe("Watches that nobody reads", func() {
	It("end, and those that are read and those of other tenants do not", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "unread")
		configMaps := tenantry.Client(n).CoreV1().ConfigMaps("default")
		_, err := configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "large"},
			Data:       map[string]string{"text": strings.Repeat("<", 1_000_000)}, // six times as much in JSON
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		read := map[tenant.Name]watch.Interface{}
		for _, n := range []tenant.Name{n, "b"} {
			read[n], err = tenantry.Client(n).CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
			Expect(err).NotTo(HaveOccurred())
			defer read[n].Stop()
		}

		wire := newWire(tenantry.Config(n))
		var unread []io.Reader
		for range unreadWatches {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+wire.host+n.Root()+"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dlarge", nil)
			Expect(err).NotTo(HaveOccurred())
			request.Header = wire.header(call{}, nil)
			response, err := wire.client.Do(request)
			Expect(err).NotTo(HaveOccurred())
			defer response.Body.Close()
			Expect(response.StatusCode).To(Equal(http.StatusOK))
			_, err = io.ReadFull(response.Body, make([]byte, 1)) // the event is being written
			Expect(err).NotTo(HaveOccurred())
			unread = append(unread, response.Body)
		}
		Eventually(ctx, func() (int, error) { return endedWatches(ctx) }).Should(BeNumerically(">", 0))
		_, _ = io.ReadAll(unread[0]) // returns when the watch has ended, with or without an error

		for n, watch := range read {
			configMaps := tenantry.Client(n).CoreV1().ConfigMaps("default")
			_, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx SpecContext) error { return configMaps.Delete(ctx, "later", metav1.DeleteOptions{}) })
			Eventually(ctx, watch.ResultChan()).Should(Receive(HaveField("Object.ObjectMeta.Name", "later")), "the watch of %s has ended", n)
		}
	}, NodeTimeout(2*time.Minute))
})

// endedWatches returns how many watches the server has ended.
func endedWatches(ctx context.Context) (count int, err error) {
	text, err := tenantry.Client(tenant.System).RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "tenantry_ended_watches_total "); ok {
			count, err = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return count, err
}
