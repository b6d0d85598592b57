//go:build node

package node

import (
	"encoding/base64"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// before is the bundle of the release before the one that has ControlPlanes: a manager of a
// server elsewhere, for all namespaces. Its image is today's, of which the command is the same.
const before = "test/node/testdata/tenantry.v0.1.0"

var _ = Describe("Tenantry by OLM, after 0.1", Ordered, func() {
	var manager *olm

	BeforeAll(func() {
		follow("kubectl apply -k config/default")
		must("apply", "-f", "config/samples/controlplane.yaml")
		available()
		follow("kubectl delete -k config/default -l app.kubernetes.io/component=operator")
		// The manager of 0.1 has the sample for a server, at its address: the host has no DNS.
		config := strings.ReplaceAll(string(kubeconfigOf("sample-admin")),
			"https://sample."+namespace+".svc", "https://"+in("get", "service", "sample", "-o", "jsonpath={.spec.clusterIP}"))
		apply(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "` + namespace + `", "name": "tenantry-manager"},
			"data": {"kubeconfig": "` + base64.StdEncoding.EncodeToString([]byte(config)) + `"}}`)
		command("ctr", "images", "tag", "--force", "ghcr.io/tenantry/tenantry:v0.2.0", "ghcr.io/tenantry/tenantry:v0.1.0")
		manager = startOLM()
		manager.offer(bundleOf(before, "", ""))
		apply(`{"apiVersion": "v1", "kind": "List", "items": [
			{"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": {"namespace": "` + namespace + `", "name": "tenantry"}},
			{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "olm", "name": "tenantry"},
				"spec": {"sourceType": "grpc", "address": "` + catalogAddress + `"}},
			{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": {"namespace": "` + namespace + `", "name": "tenantry"},
				"spec": {"name": "tenantry", "channel": "candidate", "source": "tenantry", "sourceNamespace": "olm"}}]}`)
		DeferCleanup(func() {
			for _, objects := range []string{"subscriptions.operators.coreos.com", "clusterserviceversions", "operatorgroups", "secret/tenantry-manager"} {
				kind, name, named := strings.Cut(objects, "/")
				if !named {
					name = "--all"
				}
				_, _ = kubectl("--namespace", namespace, "delete", kind, name, "--ignore-not-found")
			}
			_, _ = kubectl("--namespace", "olm", "delete", "catalogsource", "tenantry", "--ignore-not-found")
			Eventually(func() string { return in("get", "deployments", "-o", "name") }).Should(BeEmpty())
			// OLM leaves them, and who installs in another way cannot change the roles of bindings.
			in("delete", "roles,rolebindings", "-l", "app.kubernetes.io/component=operator")
			must("delete", "crd", "tenants.tenantry.io")
		})
	})

	AfterEach(onFailure)
	AfterEach(olmOnFailure)

	It("begins with a version that runs for all namespaces", func() {
		succeeded("tenantry.v0.1.0")
	})

	It("goes on with a version that has control planes, and no Secret but those of its namespace", func() {
		manager.offer(bundleOf(before, "", ""), bundleOf("bundle", "", ""))
		succeeded("tenantry.v0.2.0")
		in("rollout", "status", "deployment/tenantry-operator", "--timeout=5m")
		Eventually(func() string { return in("get", "deployments", "-o", "name") }).Should(Equal("deployment.apps/tenantry-operator"))
		hasRightsInItsNamespaceAlone()
		available()
		serves("after-0-1")
	})
})
