package flowcontrol

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

const widgets = `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"}, "spec": {
	"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
	"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`

// send sends a request and returns the status that is answered, of an object its code
// alone.
func send(ctx SpecContext, config *rest.Config, method, path string, header map[string]string, body io.Reader) metav1.Status {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, method, config.Host+path, body)
	Expect(err).NotTo(HaveOccurred())
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	var status metav1.Status
	if json.Unmarshal(answer, &status) != nil || status.Kind != "Status" {
		status = metav1.Status{}
	}
	status.Code = int32(response.StatusCode)
	return status
}

// setRequestLimit patches a tenant. The next request is decided by the patch.
func setRequestLimit(ctx SpecContext, t tenant.Name, limit string) error {
	return tenantry.SetSpec(ctx, t, "requestLimit", limit)
}

// addWidgets defines widgets in a space, and waits until they are served.
func addWidgets(ctx SpecContext, config *rest.Config) {
	GinkgoHelper()
	Expect(send(ctx, config, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		map[string]string{"Content-Type": "application/json"}, strings.NewReader(widgets)).Code).To(BeEquivalentTo(http.StatusCreated))
	Eventually(func() int32 {
		return send(ctx, config, http.MethodGet, "/apis/example.com/v1/widgets", nil, nil).Code
	}).Should(BeEquivalentTo(http.StatusOK))
}

var _ = Describe("Tenant.spec.requestLimit.bodyBytes", Ordered, func() {
	var own, other tenant.Name
	const (
		limit      = 16 << 10
		configMaps = "/api/v1/namespaces/default/configmaps"
		oneMap     = configMaps + "/kube-root-ca.crt"
		widgets    = "/apis/example.com/v1/namespaces/default/widgets"
	)
	// padded returns an object of a size.
	padded := func(object string, size int) string { return object + strings.Repeat(" ", size-len(object)) }
	object := func(name string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q}}`, name)
	}
	json := map[string]string{"Content-Type": "application/json"}

	BeforeAll(func(ctx SpecContext) {
		own, other = tenantry.NewTenant(ctx, "flow"), tenantry.NewTenant(ctx, "flow")
		addWidgets(ctx, tenantry.Config(own))
		Expect(setRequestLimit(ctx, own, fmt.Sprintf(`{"bodyBytes": %d}`, limit))).To(Succeed())
	})

	DescribeTable("refuses", func(ctx SpecContext, method, path, contentType, body string) {
		for _, chunked := range []bool{false, true} {
			var reader io.Reader = strings.NewReader(padded(body, limit+1))
			if chunked {
				reader = struct{ io.Reader }{reader}
			}
			status := send(ctx, tenantry.Config(own), method, path, map[string]string{"Content-Type": contentType}, reader)
			Expect(status.Code).To(BeEquivalentTo(http.StatusRequestEntityTooLarge), "chunked: %v, %s", chunked, status.Message)
			Expect(status.Reason).To(Equal(metav1.StatusReasonRequestEntityTooLarge))
			Expect(status.Message).To(ContainSubstring("users of tenant %q may send %d bytes at once (requestLimit.bodyBytes)", own, limit))
		}
	},
		Entry("a creation", http.MethodPost, configMaps, "application/json", object("a")),
		Entry("a creation in YAML", http.MethodPost, configMaps, "application/yaml", object("a")),
		Entry("a creation in protobuf", http.MethodPost, configMaps, "application/vnd.kubernetes.protobuf", "k8s\x00"),
		Entry("an update", http.MethodPut, oneMap, "application/json", object("kube-root-ca.crt")),
		Entry("a merge patch", http.MethodPatch, oneMap, "application/merge-patch+json", "{}"),
		Entry("a strategic patch", http.MethodPatch, oneMap, "application/strategic-merge-patch+json", "{}"),
		Entry("a JSON patch", http.MethodPatch, oneMap, "application/json-patch+json", "[]"),
		Entry("an application", http.MethodPatch, configMaps+"/b?fieldManager=test", "application/apply-patch+yaml", object("b")),
		Entry("a deletion", http.MethodDelete, oneMap, "application/json", `{"apiVersion": "v1", "kind": "DeleteOptions"}`),
		Entry("the deletion of a collection", http.MethodDelete, configMaps, "application/json", `{"apiVersion": "v1", "kind": "DeleteOptions"}`),
		Entry("a custom resource", http.MethodPost, widgets, "application/json", `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}`),
		Entry("a patch of a custom resource", http.MethodPatch, widgets+"/a", "application/merge-patch+json", "{}"),
		Entry("a review", http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json",
			`{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}`),
	)

	It("lets through what is smaller, and what others send", func(ctx SpecContext) {
		inSpace := tenantry.In(own, tenantry.Config(tenant.System))
		for name, sent := range map[string]struct {
			config *rest.Config
			size   int
			want   int32
		}{
			"at-the-limit":           {tenantry.Config(own), limit, http.StatusCreated},
			"of-the-system":          {inSpace, 2 * limit, http.StatusCreated},
			"of-another":             {tenantry.Config(other), 2 * limit, http.StatusCreated},
			"of-another-by-default":  {tenantry.Config(other), defaultBody, http.StatusCreated},
			"of-another-too-large":   {tenantry.Config(other), defaultBody + 1, http.StatusRequestEntityTooLarge},
			"of-the-system-too-much": {inSpace, 3<<20 + 1, http.StatusRequestEntityTooLarge},
		} {
			for i, reader := range []io.Reader{
				strings.NewReader(padded(object(name), sent.size)),
				struct{ io.Reader }{strings.NewReader(padded(object(name+"-chunked"), sent.size))},
			} {
				Expect(send(ctx, sent.config, http.MethodPost, configMaps, json, reader).Code).To(Equal(sent.want), "%s, %d", name, i)
			}
		}
	})

	It("is not evaded by compression", func(ctx SpecContext) {
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		_, err := writer.Write([]byte(padded(object("packed"), limit+1)))
		Expect(err).NotTo(HaveOccurred())
		Expect(writer.Close()).To(Succeed())
		status := send(ctx, tenantry.Config(own), http.MethodPost, configMaps,
			map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}, &packed)
		Expect(status.Code).To(BeEquivalentTo(http.StatusBadRequest), "the server reads no compressed bodies: %s", status.Message)
	})

	It("lets nobody send more than the server reads", func(ctx SpecContext) {
		Expect(setRequestLimit(ctx, own, `{"bodyBytes": 4194304}`)).To(MatchError(ContainSubstring("spec.requestLimit.bodyBytes")))
		Expect(setRequestLimit(ctx, own, `{"bodyBytes": 3}`)).To(MatchError(ContainSubstring("spec.requestLimit.bodyBytes")))
	})
})

var _ = Describe("Tenant.spec.requestLimit.listObjects", Ordered, func() {
	var (
		own    tenant.Name
		config *rest.Config
		client *kubernetes.Clientset
	)
	const (
		limit   = 10
		objects = 13
		path    = "/api/v1/namespaces/default/configmaps"
	)
	create := func(ctx SpecContext, collection, object string) {
		GinkgoHelper()
		for i := range objects {
			status := send(ctx, config, http.MethodPost, collection, map[string]string{"Content-Type": "application/json"},
				strings.NewReader(fmt.Sprintf(object, i)))
			Expect(status.Code).To(BeEquivalentTo(http.StatusCreated), status.Message)
		}
	}

	BeforeAll(func(ctx SpecContext) {
		own = tenantry.NewTenant(ctx, "flow")
		config = tenantry.Config(own)
		client = suite.Client(config)
		addWidgets(ctx, config)
		create(ctx, path, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m-%d", "labels": {"own": "yes"}}}`)
		create(ctx, "/api/v1/namespaces/default/events", `{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e-%d"}, "involvedObject": {"namespace": "default"}}`)
		create(ctx, "/apis/example.com/v1/namespaces/default/widgets", `{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w-%d"}}`)
		Expect(setRequestLimit(ctx, own, fmt.Sprintf(`{"listObjects": %d}`, limit))).To(Succeed())
	})

	DescribeTable("refuses what is read at once", func(ctx SpecContext, path, accept string) {
		status := send(ctx, config, http.MethodGet, path, map[string]string{"Accept": accept}, nil)
		Expect(status.Code).To(BeEquivalentTo(http.StatusRequestEntityTooLarge), status.Message)
		Expect(status.Reason).To(Equal(metav1.StatusReasonRequestEntityTooLarge))
		Expect(status.Message).To(And(ContainSubstring("more than the %d ", limit), ContainSubstring("users of tenant %q may read at once (requestLimit.listObjects)", own)))
	},
		Entry("a list", path, ""),
		Entry("a list of any version", path+"?resourceVersion=0", ""),
		Entry("a list of all namespaces", "/api/v1/configmaps", ""),
		Entry("a table", path, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
		Entry("metadata", path, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"),
		Entry("events, which are not cached", "/api/v1/events", ""),
		Entry("custom resources", "/apis/example.com/v1/widgets", ""),
		Entry("a watch from the current state", path+"?watch=true", ""),
		Entry("a watch from any state", path+"?watch=true&resourceVersion=0", ""),
		Entry("a watch by path", "/api/v1/watch/configmaps", ""),
		Entry("a streamed list", path+"?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", ""),
		Entry("a watch of events", "/api/v1/events?watch=true", ""),
		Entry("a watch of custom resources", "/apis/example.com/v1/widgets?watch=true", ""),
		Entry("what the tenant did not make", "/apis/rbac.authorization.k8s.io/v1/clusterroles", ""),
	)

	It("cuts pages", func(ctx SpecContext) {
		first, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 500, LabelSelector: "own"})
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Items).To(HaveLen(limit))
		Expect(first.Continue).NotTo(BeEmpty())
		rest, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 500, LabelSelector: "own", Continue: first.Continue})
		Expect(err).NotTo(HaveOccurred())
		Expect(rest.Items).To(HaveLen(objects - limit))
		Expect(rest.Continue).To(BeEmpty())
	})

	It("lets through what is within it, and what others read", func(ctx SpecContext) {
		inSpace := tenantry.In(own, tenantry.Config(tenant.System))
		found, err := suite.Client(inSpace).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: "own"})
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Items).To(HaveLen(objects))
		version := found.ResourceVersion

		Expect(tenantry.Client(tenantry.NewTenant(ctx, "flow")).RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})).NotTo(BeNil())
		Expect(client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=m-1"})).NotTo(BeNil())
		Expect(client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})).NotTo(BeNil())
		watch, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{ResourceVersion: version})
		Expect(err).NotTo(HaveOccurred())
		watch.Stop()
	})

	It("has a default for all tenants", func(ctx SpecContext) {
		many := tenantry.NewTenant(ctx, "flow")
		maps := tenantry.Client(many).CoreV1().ConfigMaps("default")
		for i := range defaultList {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err := maps.List(ctx, metav1.ListOptions{}) // with kube-root-ca.crt
		Expect(err).To(MatchError(ContainSubstring("more than the %d configmaps", defaultList)))
		Expect(setRequestLimit(ctx, many, `{"listObjects": 0}`)).To(Succeed())
		Expect(maps.List(ctx, metav1.ListOptions{})).To(HaveField("Items", HaveLen(defaultList+1)))
	})

	It("refuses to delete more at once, and deletes in parts", func(ctx SpecContext) {
		maps := client.CoreV1().ConfigMaps("default")
		inSpace := tenantry.In(own, tenantry.Config(tenant.System))
		left := func() int {
			GinkgoHelper()
			all, err := suite.Client(inSpace).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{LabelSelector: "own"})
			Expect(err).NotTo(HaveOccurred())
			return len(all.Items)
		}
		own := metav1.ListOptions{LabelSelector: "own"}
		err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, own)
		Expect(err).To(Satisfy(apierrors.IsRequestEntityTooLargeError))
		Expect(err).To(MatchError(ContainSubstring("requestLimit.listObjects")))
		Expect(left()).To(Equal(objects), "nothing is deleted")

		own.Limit = 5
		Expect(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, own)).To(Succeed())
		Expect(left()).To(Equal(objects - 5))
		own.Limit = 0
		Expect(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, own)).To(Succeed())
		Expect(left()).To(BeZero())
	})
})
