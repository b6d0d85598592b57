//go:build node

package node

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// apply applies an object on the host.
func apply(object string) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "object.json")
	Expect(os.WriteFile(file, []byte(object), 0o600)).To(Succeed())
	must("apply", "-f", file)
}

// serves checks that the sample has a Tenant of a name that is Ready, and serves its space.
func serves(tenant string) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "tenant.json")
	Expect(os.WriteFile(file, []byte(`{"apiVersion": "tenantry.io/v1alpha1", "kind": "Tenant", "metadata": {"name": "`+tenant+`"}}`), 0o600)).To(Succeed())
	config := inCluster()
	must(append(config, "apply", "-f", file)...)
	must(append(config, "wait", "--for=condition=Ready", "--timeout=2m", "tenants/"+tenant)...)
	config[len(config)-1] += "/tenants/" + tenant
	Expect(must(append(config, "get", "namespaces", "-o", "name")...)).To(ContainSubstring("namespace/kube-system"))
}

// hasRightsInItsNamespaceAlone checks what the operator's account may do with Secrets.
func hasRightsInItsNamespaceAlone() {
	GinkgoHelper()
	for space, want := range map[string]string{namespace: "yes", "default": "no", "kube-system": "no"} {
		got, _ := kubectl("auth", "can-i", "get", "secrets", "--namespace", space, "--as", "system:serviceaccount:"+namespace+":tenantry-operator")
		Expect(got).To(Equal(want), "Secrets in %s", space)
	}
}

// left lists whatever there is on the host of Tenantry or of the sample, but events, and the
// APIServices that the host itself has for definitions.
func left() []string {
	GinkgoHelper()
	var kinds []string
	for kind := range strings.FieldsSeq(must("api-resources", "--verbs=list", "-o", "name")) {
		if kind != "events" && !strings.HasPrefix(kind, "events.") && !strings.HasPrefix(kind, "apiservices.") {
			kinds = append(kinds, kind)
		}
	}
	var found []string
	definition := regexp.MustCompile(`^(controlplanes|tenants)\.tenantry\.io-`)
	for object := range strings.FieldsSeq(must("get", strings.Join(kinds, ","), "--all-namespaces", "-o", "name", "--ignore-not-found")) {
		kind, name, _ := strings.Cut(object, "/")
		// OLM's own, for the definitions that are kept, as the guide says.
		if kind == "operator.operators.coreos.com" || kind == "clusterrole.rbac.authorization.k8s.io" && definition.MatchString(name) {
			continue
		}
		if strings.Contains(name, "tenantry") || strings.Contains(name, "sample") {
			found = append(found, object)
		}
	}
	return found
}

// onlyDataIsLeft checks that the sample goes on without the operator, and that after its
// deletion there is nothing but what holds data.
func onlyDataIsLeft(tenant string) {
	GinkgoHelper()
	must(append(inCluster(), "get", "tenants/"+tenant)...)
	Eventually(func() error { // the server hears in a moment that the policy is gone that refuses it
		_, err := kubectl("--namespace", namespace, "delete", "controlplane", "sample")
		return err
	}).Should(Succeed())
	Eventually(left).Should(ConsistOf(
		"customresourcedefinition.apiextensions.k8s.io/controlplanes.tenantry.io",
		"customresourcedefinition.apiextensions.k8s.io/tenants.tenantry.io", "namespace/"+namespace,
		"secret/sample-authorities", "secret/sample-keys", "persistentvolumeclaim/state-sample-0"))
}

// onFailure shows what there is of the operator.
func onFailure() {
	if CurrentSpecReport().Failed() {
		for _, args := range [][]string{
			{"get", "controlplanes,deployments,pods,pvc,events", "-o", "wide"}, {"describe", "pods"}, {"logs", "deployment/tenantry-operator", "--tail=30"},
		} {
			_, _ = kubectl(append([]string{"--namespace", namespace}, args...)...)
		}
	}
}

// olmOnFailure shows what OLM says.
func olmOnFailure() {
	if CurrentSpecReport().Failed() {
		_, _ = kubectl("--namespace", namespace, "get", "subscriptions.operators.coreos.com,installplans,clusterserviceversions", "-o", "yaml")
	}
}

var _ = Describe("Tenantry by Helm", Ordered, func() {
	BeforeAll(func() {
		DeferCleanup(func() { _, _ = run("helm", "uninstall", "tenantry", "--namespace", namespace, "--ignore-not-found") })
		follow("helm install tenantry charts/tenantry --namespace tenantry-system --create-namespace --take-ownership --wait")
	})

	AfterEach(onFailure)

	It("has rights in its namespace alone", hasRightsInItsNamespaceAlone)

	It("makes the sample, which serves a Tenant", func() {
		must("apply", "-f", "config/samples/controlplane.yaml")
		available()
		serves("by-helm")
	})

	It("says what it keeps, and leaves nothing but what holds data", func() {
		follow("helm uninstall tenantry --namespace tenantry-system --wait")
		onlyDataIsLeft("by-helm")
	})
})

var _ = Describe("Tenantry by OLM", Ordered, func() {
	var manager *olm

	BeforeAll(func() {
		manager = startOLM()
		manager.offer(bundleOf("bundle", "", ""))
		apply(`{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"namespace": "olm", "name": "tenantry"},
			"spec": {"sourceType": "grpc", "address": "` + catalogAddress + `"}}`)
	})

	AfterEach(onFailure)
	AfterEach(olmOnFailure)

	It("is installed from a catalog", func() {
		follow("kubectl apply -f config/operator/namespace.yaml")
	})

	It("has rights in its namespace alone", hasRightsInItsNamespaceAlone)

	It("makes what the version shows as examples, which serves a Tenant", func() {
		var examples []json.RawMessage
		shown := in("get", "clusterserviceversion", "tenantry.v0.2.0", "-o", `jsonpath={.metadata.annotations.alm-examples}`)
		Expect(json.Unmarshal([]byte(shown), &examples)).To(Succeed())
		Expect(examples).NotTo(BeEmpty())
		for _, example := range examples {
			apply(string(example))
		}
		available()
		for _, condition := range []string{"Ready", "KubeconfigReady"} {
			must("wait", "--for=condition="+condition, "--timeout=2m", "tenants.tenantry.io/sample-tenant")
		}
		serves("by-olm")
	})

	It("is upgraded by the next version, and the sample with it", func() {
		command("ctr", "images", "tag", "ghcr.io/tenantry/tenantry:v0.2.0", "ghcr.io/tenantry/tenantry:v0.3.0")
		manager.offer(bundleOf("bundle", "", ""), bundleOf("bundle", "0.2.0", "0.3.0"))
		succeeded("tenantry.v0.3.0")
		Eventually(func() (string, error) {
			return kubectl("--namespace", namespace, "get", "pod", "sample-0", "-o", "jsonpath={.spec.containers[0].image}")
		}).Should(Equal("ghcr.io/tenantry/tenantry:v0.3.0"))
		in("wait", "--for=condition=Ready", "--timeout=5m", "pod/sample-0")
		available()
		serves("by-olm")
		Eventually(func() string { return in("get", "clusterserviceversions", "-o", "name") }).Should(HaveSuffix("/tenantry.v0.3.0"))
	})

	It("leaves nothing but what holds data", func() {
		must("delete", "tenants.tenantry.io/sample-tenant", "--timeout=2m")
		follow("kubectl -n tenantry-system delete subscription.operators.coreos.com/tenantry operatorgroup/tenantry")
		must("--namespace", "olm", "delete", "catalogsource", "tenantry")
		onlyDataIsLeft("by-olm")
	})
})

// succeeded waits until OLM has installed a version.
func succeeded(version string) {
	GinkgoHelper()
	Eventually(func() (string, error) {
		return kubectl("--namespace", namespace, "get", "clusterserviceversion", version, "-o", "jsonpath={.status.phase}")
	}).Should(Equal("Succeeded"))
}

// kubeconfigOf returns the administrator's kubeconfig in a Secret.
func kubeconfigOf(secret string) []byte {
	GinkgoHelper()
	content, err := base64.StdEncoding.DecodeString(in("get", "secret", secret, "-o", "jsonpath={.data.kubeconfig}"))
	Expect(err).NotTo(HaveOccurred())
	return content
}
