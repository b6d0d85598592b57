package operator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// serveCreations serves a ControlPlane in the way of a server that has no Tenant, and answers who creates
// one.
func serveCreations(ctx context.Context, name string, answer http.HandlerFunc) {
	GinkgoHelper()
	serving := secret(ctx, name+"-serving").Data
	pair, err := tls.X509KeyPair(serving["server.crt"], serving["server.key"])
	Expect(err).NotTo(HaveOccurred())
	port := get(ctx, &corev1.Service{}, name).Spec.Ports[0].NodePort
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch query := request.URL.Query(); {
			case request.Method != http.MethodGet:
				answer(w, request)
				return
			case query.Get("watch") == "":
				fmt.Fprint(w, `{"kind": "TenantList", "apiVersion": "tenantry.io/v1alpha1", "metadata": {"resourceVersion": "1"}, "items": []}`)
				return
			case query.Get("sendInitialEvents") == "true":
				fmt.Fprint(w, `{"type": "BOOKMARK", "object": {"kind": "Tenant", "apiVersion": "tenantry.io/v1alpha1",
					"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}`)
			}
			_ = http.NewResponseController(w).Flush()
			<-request.Context().Done()
		}),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	DeferCleanup(server.Close)
}

// never answers nothing.
func never(_ http.ResponseWriter, request *http.Request) { <-request.Context().Done() }

// tooSlow answers with a Tenant that takes a minute to decode.
func tooSlow(w http.ResponseWriter, request *http.Request) {
	sent := &v1alpha1.Tenant{}
	_ = json.NewDecoder(request.Body).Decode(sent) // an empty one is no answer, as the test sees
	created, _ := json.Marshal(metav1.ObjectMeta{Name: sent.Name, UID: "uid", ResourceVersion: "2", Annotations: sent.Annotations})
	used := make([]string, 400)
	for i := range used {
		used[i] = fmt.Sprintf(`"count/%d": "1e-3000000"`, i)
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"kind": "Tenant", "apiVersion": "tenantry.io/v1alpha1", "metadata": %s, "spec": {}, "status": {"quota": {"used": {%s}}}}`,
		created, strings.Join(used, ","))
}

var _ = DescribeTable("A ControlPlane keeps no Tenant of another one waiting whose server", func(ctx SpecContext, name string, answer http.HandlerFunc) {
	home := createServed(ctx, "beside-"+name)
	cp := newControlPlane(name)
	cp.Spec.Expose = home.cp.Spec.Expose
	create(ctx, cp)
	serveCreations(ctx, cp.Name, answer)
	const many = 128 // twice as many as there are workers
	for i := range many {
		t := newTenant(fmt.Sprintf("%s-%d", name, i))
		t.Spec.ControlPlaneRef = &v1alpha1.ControlPlaneReference{Namespace: namespace, Name: cp.Name}
		Expect(admin.Create(ctx, t)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { // nobody can ask its server
			changeTenant(ctx, admin, t.Name, func(t *v1alpha1.Tenant) { t.Annotations = map[string]string{v1alpha1.AbandonAnnotation: "true"} })
			deleteTenant(ctx, t.Name)
		})
	}
	expectOfTenant(ctx, name+"-0", v1alpha1.ConditionMirrored, metav1.ConditionFalse, v1alpha1.ReasonControlPlaneUnreachable)
	for i := range 3 {
		t := newTenant(fmt.Sprintf("beside-%s-%d", name, i))
		t.Spec.ControlPlaneRef = home.ref()
		createTenant(ctx, t)
		expectReady(ctx, t.Name)
	}
	Expect(admin.Delete(ctx, cp)).To(Succeed()) // so that its Tenants can be abandoned
},
	Entry("never answers", "hanging", http.HandlerFunc(never), NodeTimeout(2*startTimeout)),
	Entry("answers with what takes hours to decode", "hostile", http.HandlerFunc(tooSlow), NodeTimeout(2*startTimeout)),
)
