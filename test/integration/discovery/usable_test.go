package discovery

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/tenantry/tenantry/internal/tenant"
)

var _ = Describe("Discovery of a space", func() {
	// verbs returns what discovery says of each resource, in its aggregated or legacy form.
	verbs := func(n tenant.Name, legacy bool) map[string]metav1.Verbs {
		GinkgoHelper()
		client, err := discovery.NewDiscoveryClientForConfig(tenantry.Config(n))
		Expect(err).NotTo(HaveOccurred())
		client.UseLegacyDiscovery = legacy
		_, lists, err := client.ServerGroupsAndResources()
		Expect(err).NotTo(HaveOccurred())
		found := make(map[string]metav1.Verbs)
		for _, list := range lists {
			for _, resource := range list.APIResources {
				found[list.GroupVersion+" "+resource.Name] = resource.Verbs
			}
		}
		return found
	}

	DescribeTable("shows what can be used there", func(ctx SpecContext, legacy bool) {
		system, space := verbs(tenant.System, legacy), verbs("a", legacy)
		for _, absent := range []string{
			"v1 tenants", "v1 tenants/status", "v1 tenants/finalize", "v1 componentstatuses",
			"tenantry.io/v1alpha1 tenants", "tenantry.io/v1alpha1 tenants/status", "tenantry.io/v1alpha1 publishedobjects", "tenantry.io/v1alpha1 keystonesyncs",
			"v1 nodes/status", "v1 nodes/proxy", "v1 pods/proxy", "v1 services/proxy",
			"apiregistration.k8s.io/v1 apiservices/status",
		} {
			Expect(system).To(HaveKey(absent))
			Expect(space).NotTo(HaveKey(absent))
		}
		// Who asks for nodes is to be told why there are none.
		Expect(space).To(HaveKeyWithValue("v1 nodes", BeEmpty()))
		for _, readable := range []string{"storage.k8s.io/v1 csinodes", "storage.k8s.io/v1 volumeattachments",
			"resource.k8s.io/v1 resourceslices", "apiregistration.k8s.io/v1 apiservices"} {
			Expect(space).To(HaveKeyWithValue(readable, ConsistOf("get", "list", "watch")), readable)
		}
		for _, whole := range []string{"v1 pods", "v1 pods/log", "v1 namespaces", "apps/v1 daemonsets", "apps/v1 deployments/scale",
			"tenantry.io/v1alpha1 tenantaccesspolicies", "tenantry.io/v1alpha1 users", "tenantry.io/v1alpha1 users/status", "apiextensions.k8s.io/v1 customresourcedefinitions", "authorization.k8s.io/v1 subjectaccessreviews"} {
			Expect(space).To(HaveKeyWithValue(whole, system[whole]), whole)
			Expect(system[whole]).NotTo(BeEmpty())
		}
	},
		Entry("aggregated", false),
		Entry("legacy", true),
	)
})
