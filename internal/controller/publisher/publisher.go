package publisher

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Config returns the configuration of clients that impersonate the publisher, of one whose user may.
func Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: tenant.Publisher, Groups: []string{user.SystemPrivilegedGroup}}
	return config
}

// NewClient returns a client of the publisher whose paths are absolute. Requests have the content type of config and
// no limit but that of the server's priority and fairness.
func NewClient(config *rest.Config) (rest.Interface, error) {
	config = Config(config)
	config.QPS = -1
	config.APIPath, config.GroupVersion = "/", &schema.GroupVersion{Version: "v1"}
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the publisher: %w", err)
	}
	return client, nil
}
