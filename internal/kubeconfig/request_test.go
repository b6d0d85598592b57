package kubeconfig

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
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
	_, err = await(t.Context(), client, &certificatesv1.CertificateSigningRequest{}, 500*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "--cluster-signing-cert-file") {
		t.Errorf("got %v", err)
	}
}

// TestFind checks that whoever is no system administrator is not told that a tenant does
// not exist.
func TestFind(t *testing.T) {
	const (
		unknown  = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "details": {"kind": "tenants", "name": "acme"}}`
		nothing  = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		ofSystem = "kubeconfig of a system administrator"
	)
	for name, tc := range map[string]struct {
		root   string
		tenant tenant.Name
		code   int
		answer string
		want   string // part of the error, empty for none
	}{
		"known":                       {tenant: "acme", code: http.StatusOK, answer: `{"kind": "Tenant", "apiVersion": "tenantry.io/v1alpha1"}`},
		"unknown":                     {tenant: "acme", code: http.StatusNotFound, answer: unknown, want: `tenant "acme" is not known`},
		"no such resource":            {tenant: "acme", code: http.StatusNotFound, answer: nothing, want: ofSystem},
		"no API server":               {tenant: "acme", code: http.StatusNotFound, answer: "404 page not found", want: ofSystem},
		"a space":                     {root: "/tenants/acme", tenant: "acme", code: http.StatusNotFound, answer: unknown, want: ofSystem},
		"a space, for a user of none": {root: "/tenants/acme", tenant: tenant.System, code: http.StatusNotFound, want: ofSystem},
		"behind a proxy":              {root: "/base/tenants/acme/", tenant: tenant.System, code: http.StatusNotFound, want: ofSystem},
		"no name of a space":          {root: "/tenants/A_B", tenant: tenant.System, code: http.StatusNotFound, want: ofSystem},
		"the system":                  {tenant: tenant.System, code: http.StatusNotFound},
		"the system behind a proxy":   {root: "/base/", tenant: tenant.System, code: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.answer))
			}))
			defer server.Close()
			err := Find(t.Context(), &rest.Config{Host: server.URL + tc.root}, tc.tenant)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
