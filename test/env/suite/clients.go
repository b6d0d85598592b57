package suite

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// All is asked for where clients of all tenants' spaces at once are meant.
const All = tenant.Name(tenant.All)

// Config returns the config of the administrator of a space, at its root. That of
// the system space has all spaces as well, see All.
func (e *Environment) Config(n tenant.Name) *rest.Config {
	GinkgoHelper()
	if n != tenant.System && n != All {
		return e.User(n, "admin")
	}
	config, err := e.Admin()
	Expect(err).NotTo(HaveOccurred())
	config.WarningHandler = rest.NoWarnings{}
	if n == All {
		return e.In(n, config)
	}
	return config
}

// User returns the config of a user of tenant n, at the root of its space.
func (e *Environment) User(n tenant.Name, name string, groups ...string) *rest.Config {
	GinkgoHelper()
	config, err := e.UserConfig(n, name, groups...)
	Expect(err).NotTo(HaveOccurred())
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// In returns a config with the same credentials, at the root of the space of n.
func (e *Environment) In(n tenant.Name, config *rest.Config) *rest.Config {
	config = e.ShortPath(config)
	config.Host += n.Root()
	return config
}

// Client returns a client of the administrator of a space.
func (e *Environment) Client(n tenant.Name) *kubernetes.Clientset {
	GinkgoHelper()
	return Client(e.Config(n))
}

// Client returns a client with a config.
func Client(config *rest.Config) *kubernetes.Clientset {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// Dynamic returns a client of all resources with a config.
func Dynamic(config *rest.Config) dynamic.Interface {
	GinkgoHelper()
	client, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}
