package attack

import (
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// endpoint is a resource or subresource as a space serves it.
type endpoint struct {
	schema.GroupVersion
	metav1.APIResource
}

// surface returns every endpoint of every version that discovery tells of.
func surface(config *rest.Config) []endpoint {
	GinkgoHelper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	_, lists, err := client.ServerGroupsAndResources()
	Expect(err).NotTo(HaveOccurred())
	var found []endpoint
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for _, r := range list.APIResources {
			found = append(found, endpoint{gv, r})
		}
	}
	Expect(len(found)).To(BeNumerically(">", 100), "resources and subresources in discovery")
	return found
}

// call is one verb on an endpoint.
type call struct {
	verb, method, path, query, contentType, body string
}

// calls returns every verb on an endpoint in a space, whatever discovery says it
// serves. inside is what a full path puts behind the version, "/tenants/b".
func (e endpoint) calls(root, inside string) []call {
	base := "/api/" + e.GroupVersion.Version
	if e.GroupVersion.Group != "" {
		base = "/apis/" + e.GroupVersion.Group + "/" + e.GroupVersion.Version
	}
	namespace := ""
	if e.Namespaced {
		namespace = "/namespaces/default"
	}
	resource, subresource, _ := strings.Cut(e.Name, "/")
	collection := root + base + inside + namespace + "/" + resource
	object := collection + "/" + name
	if subresource != "" {
		object += "/" + subresource
	}
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"attack":"done"}}}`, e.GroupVersion.String(), e.Kind, name)
	calls := []call{
		{verb: "get", method: http.MethodGet, path: object},
		{verb: "update", method: http.MethodPut, path: object, body: body},
		{verb: "apply", method: http.MethodPatch, path: object, query: "?fieldManager=m&force=true", contentType: "application/apply-patch+yaml", body: body},
		{verb: "merge patch", method: http.MethodPatch, path: object, contentType: "application/merge-patch+json", body: body},
		{verb: "delete", method: http.MethodDelete, path: object},
	}
	if subresource != "" {
		return append(calls, call{verb: "create", method: http.MethodPost, path: object, body: body})
	}
	return append(calls,
		call{verb: "create", method: http.MethodPost, path: collection, body: body},
		call{verb: "list", method: http.MethodGet, path: collection},
		call{verb: "watch", method: http.MethodGet, path: collection, query: "?watch=true&timeoutSeconds=1"},
		call{verb: "old watch", method: http.MethodGet, path: root + base + "/watch" + inside + namespace + "/" + resource, query: "?timeoutSeconds=1"},
		call{verb: "list everywhere", method: http.MethodGet, path: root + base + inside + "/" + resource},
		call{verb: "deletecollection", method: http.MethodDelete, path: collection},
	)
}
