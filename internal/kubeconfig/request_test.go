package kubeconfig

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestNoSigner checks that a request nobody answers ends with what may be missing, also
// where the client's own limit of its rate ends the wait.
func TestNoSigner(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1"}`))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: 1, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = await(t.Context(), client.CertificatesV1().CertificateSigningRequests(), "jane", 500*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "--cluster-signing-cert-file") {
		t.Errorf("got %v", err)
	}
}
