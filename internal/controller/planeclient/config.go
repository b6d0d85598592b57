package planeclient

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// Validity is for how long the operator's own certificate in a control plane is good, and Life
	// after what time it has another one.
	Validity = 60 * 24 * time.Hour
	Life     = Validity / 3
)

// Config is that of a user of the operator in the system space of a ControlPlane, at the address of its
// Service or, if the operator is outside of the host, at that for clients.
func Config(cp *v1alpha1.ControlPlane, access controlplane.Access, outside bool, user string, groups ...string) (*rest.Config, error) {
	certPEM, keyPEM, err := access.System.ClientCertificate(Validity, tenant.System, user, groups...)
	if err != nil {
		return nil, err
	}
	config := &rest.Config{
		Host: access.Endpoint, QPS: -1, // the server's priority and fairness limits
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: access.ServerName, CAData: access.System.ServerCA.PEM(), CertData: certPEM, KeyData: keyPEM,
		},
	}
	if outside {
		config.Host = cp.Status.Endpoint
	}
	of := client.ObjectKeyFromObject(cp).String()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &guard{next: next, of: of} })
	return config, nil
}

// Bound gives the requests of a config to the servers of a ControlPlane an end, their answers a bound,
// and the ControlPlane its share of the workers.
func Bound(config *rest.Config, workers *Shares, of types.NamespacedName) *rest.Config {
	bound := rest.CopyConfig(config)
	bound.Timeout = AnswerTimeout
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &breaker{next: &sharing{next: next, shares: workers, of: of}}
	})
	return bound
}
