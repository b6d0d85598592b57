package attack

import (
	"fmt"
	"io"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// slowBodies is more than a tenant has places for writes.
const slowBodies = 12

var _ = Describe("Bodies that are sent slowly", func() {
	It("stop no other writes of their tenant", func(ctx SpecContext) {
		n := tenantry.NewTenant(ctx, "slow")
		config := tenantry.Config(n)
		client, err := rest.HTTPClientFor(config)
		Expect(err).NotTo(HaveOccurred())
		answered := make(chan struct{}, slowBodies)
		var bodies []*io.PipeWriter
		for range slowBodies {
			reader, writer := io.Pipe()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Host+"/api/v1/namespaces/default/configmaps", reader)
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("Content-Type", "application/json")
			request.ContentLength = 1000
			go func() {
				if response, err := client.Do(request); err == nil {
					_ = response.Body.Close()
				}
				answered <- struct{}{}
			}()
			_, err = writer.Write([]byte("{")) // returns when it is sent, behind the headers
			Expect(err).NotTo(HaveOccurred())
			bodies = append(bodies, writer)
		}
		for i := range 3 {
			_, err := tenantry.Client(n).CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("other-%d", i)}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(answered).To(BeEmpty(), "the other writes waited for the slow ones to end")
		for _, body := range bodies {
			Expect(body.CloseWithError(io.ErrUnexpectedEOF)).To(Succeed())
		}
		for range slowBodies {
			Eventually(ctx, answered).Should(Receive())
		}
	}, NodeTimeout(2*time.Minute))
})

var _ = Describe("A request named like one that lasts", func() {
	It("has a seat as any other", func(ctx SpecContext) {
		config := tenantry.Config("a")
		client, err := rest.HTTPClientFor(config)
		Expect(err).NotTo(HaveOccurred())
		for _, path := range []string{"/pods/none/exec", "/pods/none/attach", "/pods/none/log", "/pods/none/portforward", "/configmaps/none/log", "/services/none/proxy/x"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				request, err := http.NewRequestWithContext(ctx, method, config.Host+"/api/v1/namespaces/default"+path, nil)
				Expect(err).NotTo(HaveOccurred())
				response, err := client.Do(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(response.Body.Close()).To(Succeed())
				Expect(response.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)).NotTo(BeEmpty(), "%s %s: %s", method, path, response.Status)
			}
		}
	}, NodeTimeout(time.Minute))
})
