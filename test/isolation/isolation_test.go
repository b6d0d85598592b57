package isolation

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// canary is in every object of b and of the system space, and must never be in
// anything that a user of a is sent.
const canary = "canary-b7e1"

type resource struct {
	schema.GroupVersionResource
	kind       string
	namespaced bool
	verbs      []string
}

// discover returns the resources that can be listed in the space of a.
func discover(config *rest.Config) []resource {
	GinkgoHelper()
	client, err := discovery.NewDiscoveryClientForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	lists, err := client.ServerPreferredResources()
	Expect(err).NotTo(HaveOccurred())
	var found []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && r.Name != "componentstatuses" && r.Name != "tenants" && r.Name != "publishedobjects" && r.Name != "keystonesyncs" {
				found = append(found, resource{gv.WithResource(r.Name), r.Kind, r.Namespaced, r.Verbs})
			}
		}
	}
	return found
}

// path returns the path of a collection within a space; prefix is "" or "/watch".
func (r resource) path(prefix, inside string) string {
	base := "/api/" + r.Version
	if r.Group != "" {
		base = "/apis/" + r.Group + "/" + r.Version
	}
	base += prefix + inside
	if r.namespaced {
		base += "/namespaces/default"
	}
	return base + "/" + r.Resource
}

func (r resource) seed(data string) string {
	metadata := fmt.Sprintf(`"metadata":{"name":%q,"labels":{"isolation":%q}}`, name, data)
	object := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, r.GroupVersion().String(), r.kind, metadata)
	if more := seeds[r.Resource+"."+r.Group]; more != "" {
		object += "," + more
	}
	return object + "}"
}

// send makes one request and returns its status and body.
func send(ctx context.Context, config *rest.Config, method, path, body string, accept string) (int, string) {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(config.Host, "/")+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	response, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var buffer bytes.Buffer
	_, err = buffer.ReadFrom(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, buffer.String()
}

const (
	acceptJSON     = "application/json"
	acceptProtobuf = "application/vnd.kubernetes.protobuf, application/json"
	acceptTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	acceptMetadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

var _ = Describe("A user of tenant a", Ordered, func() {
	var a, system *rest.Config
	var resources []resource

	BeforeAll(func(ctx SpecContext) {
		system = tenantry.Config(tenant.System)
		own := tenantry.Config("a")
		a = tenantry.ShortPath(own)
		resources = discover(own)
		var unseeded []string
		for _, r := range resources {
			seed, known := seeds[r.Resource+"."+r.Group]
			if !known {
				unseeded = append(unseeded, fmt.Sprintf("%s.%s has no seed: add one to seeds_test.go", r.Resource, r.Group))
				continue
			}
			if seed == refused || !slices.Contains(r.verbs, "create") {
				continue
			}
			for space, data := range map[string]string{"/tenants/a": "own", "/tenants/b": canary, "": canary} {
				if space == "" && (r.Resource == "tenantaccesspolicies" || r.Resource == "users") {
					continue // for spaces alone
				}
				status, body := send(ctx, system, http.MethodPost, space+r.path("", ""), r.seed(data), acceptJSON)
				if status != http.StatusCreated && status != http.StatusConflict {
					unseeded = append(unseeded, fmt.Sprintf("%s in %q: %s", r.Resource, space, body))
				}
			}
		}
		Expect(unseeded).To(BeEmpty())
	}, NodeTimeout(2*time.Minute))

	It("sees nothing of others in any format", func(ctx SpecContext) {
		for _, r := range resources {
			for _, accept := range []string{acceptJSON, acceptProtobuf, acceptTable, acceptMetadata} {
				for _, path := range []string{
					r.path("", ""), r.path("", "/tenants/a"), "/tenants/a" + r.path("", ""),
					r.path("", "") + "/" + name, r.path("", "") + "?resourceVersion=0", r.path("", "") + "?limit=1",
					r.path("", "") + "?labelSelector=isolation%3D" + canary,
					strings.Replace(r.path("", ""), "/namespaces/default", "", 1),
				} {
					_, body := send(ctx, a, http.MethodGet, path, "", accept)
					Expect(body).NotTo(ContainSubstring(canary), "GET %s as %s", path, accept)
				}
			}
		}
	}, NodeTimeout(3*time.Minute))

	It("is refused everywhere else, with the same answer whoever is named", func(ctx SpecContext) {
		for _, r := range resources {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				bodies := map[string]string{}
				for _, other := range []string{"b", "nobody", "system", "all"} {
					for form, path := range map[string]string{
						"root": "/tenants/" + other + r.path("", ""), "full": r.path("", "/tenants/"+other),
						"watch": r.path("/watch", "/tenants/"+other),
					} {
						if method != http.MethodGet && method != http.MethodPost {
							path += "/" + name
						}
						status, body := send(ctx, a, method, path, r.seed("attack"), acceptJSON)
						Expect(status).To(Equal(http.StatusForbidden), "%s %s: %s", method, path, body)
						Expect(body).NotTo(ContainSubstring(canary))
						if known, ok := bodies[form]; ok {
							Expect(body).To(Equal(known), "%s %s", method, path)
						}
						bodies[form] = body
					}
				}
			}
		}
	}, NodeTimeout(3*time.Minute))

	It("changes nothing of others by changing and deleting its own", func(ctx SpecContext) {
		before := others(ctx)
		for _, r := range resources {
			if r.Resource == "namespaces" || seeds[r.Resource+"."+r.Group] == refused {
				continue
			}
			object := r.path("", "") + "/" + name
			status, body := send(ctx, a, http.MethodPatch, object, `{"metadata":{"labels":{"isolation":"changed"}}}`, acceptJSON)
			Expect(status).To(BeElementOf(http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed), "PATCH %s: %s", object, body)
			status, body = send(ctx, a, http.MethodDelete, object, "", acceptJSON)
			Expect(status).To(BeElementOf(http.StatusOK, http.StatusAccepted, http.StatusNotFound), "DELETE %s: %s", object, body)
			status, body = send(ctx, a, http.MethodDelete, r.path("", "")+"?labelSelector=isolation", "", acceptJSON)
			Expect(status).To(BeElementOf(http.StatusOK, http.StatusMethodNotAllowed), "DELETE %s: %s", r.path("", ""), body)
		}
		Expect(others(ctx)).To(Equal(before))
	}, NodeTimeout(2*time.Minute))
})

// others returns the keys in etcd that hold a canary, with their versions.
func others(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	response, err := tenantry.Etcd().Get(ctx, "/registry/", clientv3.WithPrefix())
	Expect(err).NotTo(HaveOccurred())
	keys := map[string]int64{}
	for _, kv := range response.Kvs {
		if bytes.Contains(kv.Value, []byte(canary)) {
			// Controllers write the status of these now and then.
			keys[string(kv.Key)] = kv.CreateRevision
		}
	}
	Expect(keys).NotTo(BeEmpty())
	return keys
}
