package clients

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/test/env/suite"
)

const timeout = time.Minute

var tenantry = suite.Tenants("a", "b")

func TestClients(t *testing.T) {
	suite.Run(t, "Clients")
}

// form is one of the URL forms that a stock client can be configured with.
type form struct {
	name   string
	config func(*rest.Config) *rest.Config
}

var forms = []form{
	{"space-root", rest.CopyConfig},
	{"short-path", func(config *rest.Config) *rest.Config { return tenantry.ShortPath(config) }},
}

// createNamespace creates a namespace for one spec in a space.
func createNamespace(ctx SpecContext, config *rest.Config, name string) {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := suite.Client(config).CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
