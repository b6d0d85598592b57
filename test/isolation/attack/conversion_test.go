package attack

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

// converter is a conversion webhook that answers as it likes.
type converter struct {
	*httptest.Server
	asked atomic.Int32
	// change is applied to each object that has been converted.
	change func(*unstructured.Unstructured)
	// credentials is what the server has sent to be known by.
	credentials atomic.Value
}

func newConverter(change func(*unstructured.Unstructured)) *converter {
	c := &converter{change: change}
	c.Server = httptest.NewTLSServer(c)
	DeferCleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *converter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	c.asked.Add(1)
	c.credentials.Store(req.Header.Get("Authorization"))
	review := &apiextensionsv1.ConversionReview{}
	if err := json.NewDecoder(req.Body).Decode(review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, raw := range review.Request.Objects {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw.Raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		object.SetAPIVersion(review.Request.DesiredAPIVersion)
		c.change(object)
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: object})
	}
	review.Request, review.Response = nil, response
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the server notices what is missing
}

// at returns the conversion of a definition by a webhook.
func (c *converter) at(url string) *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ConversionReviewVersions: []string{"v1"},
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				URL:      &url,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}),
			},
		},
	}
}

// defineVersions defines a resource in the space of n, stored in v1 and served in v2 as
// well, and returns clients of both versions once they are served.
func defineVersions(ctx context.Context, n tenant.Name, resource schema.GroupVersionResource, kind string,
	conversion *apiextensionsv1.CustomResourceConversion) (v1, v2 dynamic.ResourceInterface) {
	GinkgoHelper()
	definition := suite.NewDefinition(resource, kind, apiextensionsv1.NamespaceScoped)
	definition.Annotations = map[string]string{tenant.OwnDefinitionAnnotation: "true"}
	second := *definition.Spec.Versions[0].DeepCopy()
	second.Name, second.Storage = "v2", false
	definition.Spec.Versions = append(definition.Spec.Versions, second)
	definition.Spec.Conversion = conversion
	config := tenantry.Config(n)
	_, err := suite.Definitions(config).Create(ctx, definition, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	client := suite.Dynamic(config)
	v1 = client.Resource(resource).Namespace("default")
	v2 = client.Resource(resource.GroupResource().WithVersion("v2")).Namespace("default")
	Eventually(func() error {
		_, err := client.Resource(resource.GroupResource().WithVersion("v2")).List(ctx, metav1.ListOptions{LabelSelector: "none=at-all"})
		return err
	}).Should(Succeed())
	return v1, v2
}

func newObject(resource schema.GroupVersionResource, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"data": "injected", "size": int64(1)}}}
	object.SetAPIVersion(resource.GroupVersion().String())
	object.SetKind(kind)
	object.SetName(name)
	return object
}

var _ = Describe("A conversion webhook of a tenant", func() {
	// The platform publishes the definition; the attacker has one of its own of the same
	// name, whose objects are in the same range of etcd.
	It("puts no object into another space", func(ctx SpecContext) {
		victims := map[tenant.Name]dynamic.ResourceInterface{
			"b":           suite.Dynamic(tenantry.Config("b")).Resource(targets).Namespace("default"),
			tenant.System: suite.Dynamic(tenantry.Config(tenant.System)).Resource(targets).Namespace("default"),
		}
		var refusals []error
		for victim := range victims {
			attacker := tenantry.NewTenant(ctx, "converting")
			hostile := newConverter(func(object *unstructured.Unstructured) {
				annotations := object.GetAnnotations()
				for _, key := range []string{tenant.Annotation, tenant.Former(tenant.Annotation)} {
					if victim == tenant.System {
						delete(annotations, key)
					} else {
						annotations[key] = victim.String()
					}
				}
				object.SetAnnotations(annotations)
			})
			_, v2 := defineVersions(ctx, attacker, targets, "Target", hostile.at(hostile.URL))
			for _, injected := range []string{"injected", name} {
				_, err := v2.Create(ctx, newObject(targets.GroupResource().WithVersion("v2"), "Target", injected), metav1.CreateOptions{})
				refusals = append(refusals, err)
			}
			Expect(hostile.asked.Load()).NotTo(BeZero())
		}
		for victim, client := range victims {
			for _, version := range []string{"", "0"} {
				found, err := client.List(ctx, metav1.ListOptions{ResourceVersion: version})
				Expect(err).NotTo(HaveOccurred())
				Expect(found.Items).To(HaveLen(1), "in space %q, at version %q", victim, version)
				Expect(found.Items[0].GetName()).To(Equal(name))
				Expect(found.Items[0].Object["spec"]).NotTo(HaveKeyWithValue("data", "injected"))
			}
		}
		Expect(refusals).To(HaveEach(MatchError(ContainSubstring("which belongs to the server"))))
	})

	It("changes neither the space nor the identity of what is read", func(ctx SpecContext) {
		attacker := tenantry.NewTenant(ctx, "converting")
		resource := schema.GroupVersionResource{Group: "read.example.com", Version: "v1", Resource: "things"}
		hostile := newConverter(func(object *unstructured.Unstructured) {
			object.SetAnnotations(map[string]string{tenant.Annotation: "b", tenant.Former(tenant.Annotation): "b", "asked": "yes"})
		})
		v1, v2 := defineVersions(ctx, attacker, resource, "Thing", hostile.at(hostile.URL))
		_, err := v1.Create(ctx, newObject(resource, "Thing", "own"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, version := range []string{"", "0"} {
			found, err := v2.Get(ctx, "own", metav1.GetOptions{ResourceVersion: version})
			Expect(err).NotTo(HaveOccurred())
			Expect(found.GetAnnotations()).To(HaveKeyWithValue("asked", "yes"))
			Expect(found.GetAnnotations()).To(HaveKeyWithValue(tenant.Annotation, attacker.String()))
			listed, err := v2.List(ctx, metav1.ListOptions{ResourceVersion: version})
			Expect(err).NotTo(HaveOccurred())
			Expect(listed.Items).To(HaveLen(1))
		}
		Expect(hostile.credentials.Load()).To(BeEmpty())
	})

	It("is not reached in denied networks", func(ctx SpecContext) {
		listener, err := net.Listen("tcp", deniedAddress+":0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		var connected atomic.Int32
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				connected.Add(1)
				_ = conn.Close()
			}
		}()
		attacker := tenantry.NewTenant(ctx, "converting")
		resource := schema.GroupVersionResource{Group: "denied.example.com", Version: "v1", Resource: "things"}
		trusted := newConverter(func(*unstructured.Unstructured) {})
		_, v2 := defineVersions(ctx, attacker, resource, "Thing", trusted.at("https://"+listener.Addr().String()))
		_, err = v2.Create(ctx, newObject(resource.GroupResource().WithVersion("v2"), "Thing", "x"), metav1.CreateOptions{})
		Expect(err).To(MatchError(ContainSubstring("conversion webhook")))
		Expect(connected.Load()).To(BeZero(), strings.TrimSpace(err.Error()))
	})
})
