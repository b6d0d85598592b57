package authorization

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tenantry/tenantry/internal/tenant"
)

// hooked is the user whom the webhook knows: one of tenant a, in its space, and
// one of the system tenant, in every space.
const hooked = "hooked"

// webhook is an authorization webhook over TLS that notes what it is asked about
// the user hooked.
type webhook struct {
	config string // a kubeconfig

	mu    sync.Mutex
	asked []authorizationv1.SubjectAccessReviewSpec
}

func newWebhook(dir string) *webhook {
	w := &webhook{config: filepath.Join(dir, "webhook.kubeconfig")}
	server := httptest.NewTLSServer(w)
	DeferCleanup(server.Close)
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters["webhook"] = &api.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	kubeconfig.Contexts["webhook"] = &api.Context{Cluster: "webhook"}
	kubeconfig.CurrentContext = "webhook"
	Expect(clientcmd.WriteToFile(*kubeconfig, w.config)).To(Succeed())
	return w
}

// ServeHTTP implements http.Handler.
func (w *webhook) ServeHTTP(response http.ResponseWriter, req *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	if review.Spec.User == hooked {
		w.mu.Lock()
		w.asked = append(w.asked, review.Spec)
		w.mu.Unlock()
		own, space := only(review.Spec.Extra[tenant.UserExtraKey]), only(review.Spec.Extra[tenant.SpaceExtraKey])
		review.Status.Allowed = own == "a" && space == "a" || own == "system"
	}
	response.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(response).Encode(review); err != nil {
		panic(err)
	}
}

func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// take returns and forgets what the webhook was asked.
func (w *webhook) take() []authorizationv1.SubjectAccessReviewSpec {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

var _ = Describe("An authorization webhook", func() {
	It("learns the tenant of the user and the space", func(ctx SpecContext) {
		hook.take()
		_, err := who{tenant: "a", name: hooked}.in("a").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = who{tenant: "b", name: hooked}.in("b").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(err).To(beForbidden)
		_, err = who{tenant: tenant.System, name: hooked}.in("b").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = who{tenant: tenant.System, name: hooked}.in(tenant.System).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())

		var told [][2]string
		for _, spec := range hook.take() {
			told = append(told, [2]string{only(spec.Extra[tenant.UserExtraKey]), only(spec.Extra[tenant.SpaceExtraKey])})
		}
		Expect(told).To(Equal([][2]string{{"a", "a"}, {"b", "b"}, {"system", "b"}, {"system", "system"}}))
	}, SpecTimeout(specTimeout))

	It("is not asked about users who leave their tenant", func(ctx SpecContext) {
		hook.take()
		_, err := who{tenant: "a", name: hooked}.in("b").CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		Expect(err).To(beForbidden)
		Expect(hook.take()).To(BeEmpty())
	}, SpecTimeout(specTimeout))
})
