package flowcontrol

import (
	"net/http"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var _ = Describe("Tenant.spec.rateLimit", func() {
	setRateLimit := func(ctx SpecContext, t tenant.Name, rateLimit string) error {
		return tenantry.SetSpec(ctx, t, "rateLimit", rateLimit)
	}
	// once returns a client that does not try again after a refusal.
	once := func(config *rest.Config) *kubernetes.Clientset {
		config = rest.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundtrip.Func(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil {
					response.Header.Del("Retry-After")
				}
				return response, err
			})
		})
		return suite.Client(config)
	}
	list := func(ctx SpecContext, client *kubernetes.Clientset) error {
		_, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	}

	It("limits requests per second, whoever sends them, and nobody else's", func(ctx SpecContext) {
		own, other := tenantry.NewTenant(ctx, "flow"), tenantry.NewTenant(ctx, "flow")
		Expect(setRateLimit(ctx, own, `{"requestsPerSecond":1,"burst":3}`)).To(Succeed())
		clients := []*kubernetes.Clientset{once(tenantry.Config(own)), once(tenantry.ShortPath(tenantry.User(own, "admin", "developers")))}
		var err error
		Eventually(func() error {
			for _, client := range clients {
				if err = list(ctx, client); err != nil {
					return err
				}
			}
			return nil
		}).Should(Satisfy(apierrors.IsTooManyRequests))
		Expect(err).To(MatchError(And(ContainSubstring("tenant %q", own), ContainSubstring("rateLimit.requestsPerSecond"))))
		after, ok := apierrors.SuggestsClientDelay(err)
		Expect(ok).To(BeTrue())
		Expect(after).To(Equal(1))

		By("leaving others and the system alone")
		unlimited := once(tenantry.Config(other))
		administrator := once(tenantry.In(own, tenantry.Config(tenant.System)))
		for range 20 {
			Expect(list(ctx, unlimited)).To(Succeed())
			Expect(list(ctx, administrator)).To(Succeed())
		}

		By("being followed by clients that wait as they are told")
		patient := tenantry.Client(own)
		for range 2 {
			Expect(list(ctx, patient)).To(Succeed())
		}

		By("being lifted")
		Expect(setRateLimit(ctx, own, "null")).To(Succeed())
		Eventually(func() error {
			for range 20 {
				if err := list(ctx, clients[0]); err != nil {
					return err
				}
			}
			return nil
		}).Should(Succeed())
	})

	It("refuses before anything is read for a request", func(ctx SpecContext) {
		own := tenantry.NewTenant(ctx, "flow")
		Expect(setRateLimit(ctx, own, `{"requestsPerSecond":1,"burst":1}`)).To(Succeed())
		client, before := once(tenantry.Config(own)), namespaceReads(ctx)
		refused := 0
		for refused < 50 {
			err := client.CoreV1().ConfigMaps("missing").Delete(ctx, "x", metav1.DeleteOptions{})
			if apierrors.IsTooManyRequests(err) {
				refused++
			}
		}
		Expect(namespaceReads(ctx) - before).To(BeNumerically("<", refused))
	})

	DescribeTable("limits open watches", func(ctx SpecContext, limit, paths string, most int) {
		own := tenantry.NewTenant(ctx, "flow")
		Expect(setRateLimit(ctx, own, limit)).To(Succeed())
		client := once(tenantry.Config(own))
		next := 0
		watch := func() (func(), error) {
			next++
			stream, err := client.RESTClient().Get().RequestURI(strings.Fields(paths)[next%len(strings.Fields(paths))]).Stream(ctx)
			if err != nil {
				return nil, err
			}
			return func() { Expect(stream.Close()).To(Succeed()) }, nil
		}
		var stops []func()
		var err error
		Eventually(func() error {
			var stop func()
			if stop, err = watch(); err == nil {
				stops = append(stops, stop)
			}
			return err
		}).Should(Satisfy(apierrors.IsTooManyRequests))
		Expect(err).To(MatchError(ContainSubstring("%d open watches (rateLimit.watches)", most)))
		Expect(stops).To(HaveLen(most))
		Expect(list(ctx, client)).To(Succeed())
		for _, stop := range stops {
			stop()
		}
		Eventually(func() error {
			stop, err := watch()
			if err == nil {
				stop()
			}
			return err
		}).Should(Succeed())
	},
		Entry("of every form", `{"watches":6}`, `/api/v1/configmaps?watch=true /api/v1/watch/configmaps /api/v1/namespaces/default/configmaps?watch=1
			/api/v1/watch/namespaces/default/configmaps/kube-root-ca.crt /apis/apps/v1/watch/deployments
			/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name=kube-root-ca.crt`, 6),
		Entry("by the server's flag", `{"inFlight":100}`, "/api/v1/configmaps?watch=true", defaultWatches),
	)

	DescribeTable("is refused", func(ctx SpecContext, rateLimit, message string) {
		Expect(setRateLimit(ctx, tenantry.NewTenant(ctx, "flow"), rateLimit)).To(MatchError(ContainSubstring(message)))
	},
		Entry("negative", `{"inFlight":-1}`, "spec.rateLimit.inFlight"),
		Entry("a burst alone", `{"burst":5}`, "burst needs requestsPerSecond"),
		Entry("a small burst", `{"requestsPerSecond":5,"burst":4}`, "burst must not be less than requestsPerSecond"),
	)
})

// namespaceReads returns how many namespaces the server has read from etcd, one by one.
func namespaceReads(ctx SpecContext) int {
	GinkgoHelper()
	text, err := tenantry.Client(tenant.System).RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, `etcd_requests_total{group="",operation="get",resource="namespaces"} `); ok {
			reads, err := strconv.Atoi(strings.TrimSpace(value))
			Expect(err).NotTo(HaveOccurred())
			return reads
		}
	}
	return 0
}
