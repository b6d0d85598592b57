package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

const written = "written" // a namespace, and the objects in it

// encodings of request bodies that the server takes by default.
var encodings = map[string]func(any) ([]byte, error){
	"application/json": json.Marshal,
	"application/yaml": yaml.Marshal,
}

// write is one way of writing the config map "written".
type write struct {
	name        string
	verb        string
	contentType string
	// body writes metadata beside data.
	body func(metadata map[string]any) any
}

func object(metadata map[string]any) any {
	metadata["name"], metadata["namespace"] = written, written
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": map[string]any{"by": "test"}}
}

func mergePatch(metadata map[string]any) any { return map[string]any{"metadata": metadata} }

func jsonPatch(metadata map[string]any) any {
	operations := []any{}
	for key, value := range metadata {
		operations = append(operations, map[string]any{"op": "add", "path": "/metadata/" + key, "value": value})
	}
	return operations
}

var writes = []write{
	{"update", http.MethodPut, "", object},
	{"apply", http.MethodPatch, string(types.ApplyYAMLPatchType), object},
	{"merge patch", http.MethodPatch, string(types.MergePatchType), mergePatch},
	{"strategic merge patch", http.MethodPatch, string(types.StrategicMergePatchType), mergePatch},
	{"JSON patch", http.MethodPatch, string(types.JSONPatchType), jsonPatch},
}

var _ = Describe("Writes", Ordered, func() {
	spaces := []tenant.Name{tenant.System, "foo", "foobar"}

	// send writes by a raw request to the root of a space.
	send := func(ctx context.Context, client kubernetes.Interface, verb, contentType string, body []byte) error {
		path := []string{"api", "v1", "namespaces", written, "configmaps", written}
		if verb == http.MethodPost {
			path = path[:len(path)-1]
		}
		request := client.CoreV1().RESTClient().Verb(verb).AbsPath(path...).SetHeader("Content-Type", contentType).Body(body)
		if contentType == string(types.ApplyYAMLPatchType) {
			request = request.Param("fieldManager", "test").Param("force", "true")
		}
		return request.Do(ctx).Error()
	}
	stored := func(ctx context.Context, n tenant.Name) *corev1.ConfigMap {
		GinkgoHelper()
		object, err := tenantry.Client(n).CoreV1().ConfigMaps(written).Get(ctx, written, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		return object
	}

	BeforeEach(func(ctx SpecContext) {
		for _, n := range spaces {
			client := tenantry.Client(n)
			ensureNamespace(ctx, client, written)
			err := client.CoreV1().ConfigMaps(written).Delete(ctx, written, metav1.DeleteOptions{})
			Expect(err == nil || apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			_, err = client.CoreV1().ConfigMaps(written).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: written, Labels: map[string]string{"is": "written"}, Annotations: map[string]string{"x": "y"}},
				Data:       map[string]string{"in": n.String()},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	})

	for _, w := range writes {
		for contentType, encode := range encodings {
			if w.contentType != "" {
				if contentType != "application/json" {
					continue // a patch has its own type
				}
				contentType = w.contentType
			}
			It(fmt.Sprintf("touch one space alone: %s in %s", w.name, contentType), func(ctx SpecContext) {
				others := map[tenant.Name]*corev1.ConfigMap{"foobar": stored(ctx, "foobar"), tenant.System: stored(ctx, tenant.System)}
				body, err := encode(w.body(map[string]any{"labels": map[string]any{"now": "changed"}}))
				Expect(err).NotTo(HaveOccurred())
				Expect(send(ctx, tenantry.Client("foo"), w.verb, contentType, body)).To(Succeed())
				Expect(stored(ctx, "foo").Labels).To(HaveKeyWithValue("now", "changed"))
				for n, before := range others {
					Expect(stored(ctx, n)).To(Equal(before))
				}
			})

			It(fmt.Sprintf("take metadata.tenant: %s in %s", w.name, contentType), func(ctx SpecContext) {
				for _, given := range []string{"", "foo"} {
					body, err := encode(w.body(map[string]any{"tenant": given, "labels": map[string]any{"given": "a" + given}}))
					Expect(err).NotTo(HaveOccurred())
					Expect(send(ctx, tenantry.Client("foo"), w.verb, contentType, body)).To(Succeed(), "%q", given)
					Expect(stored(ctx, "foo").Labels).To(HaveKeyWithValue("given", "a"+given))
				}
				for _, given := range []string{"foobar", "system", "all", "FOO", "../foo"} {
					body, err := encode(w.body(map[string]any{"tenant": given, "labels": map[string]any{"given": "b"}}))
					Expect(err).NotTo(HaveOccurred())
					err = send(ctx, tenantry.Client("foo"), w.verb, contentType, body)
					Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%q: %v", given, err)
					Expect(err).To(MatchError(And(ContainSubstring(given), ContainSubstring("foo"))))
				}
				Expect(stored(ctx, "foo").Labels).NotTo(HaveKeyWithValue("given", "b"))
			})

			It(fmt.Sprintf("cannot move an object by its annotation: %s in %s", w.name, contentType), func(ctx SpecContext) {
				for _, given := range []any{"foobar", "", "system", nil} {
					body, err := encode(w.body(map[string]any{"annotations": map[string]any{tenant.Annotation: given, tenant.Former(tenant.Annotation): given}}))
					Expect(err).NotTo(HaveOccurred())
					for _, n := range []tenant.Name{"foo", tenant.System} {
						// Refused or ignored, as the resource's own rules for null values say.
						err := send(ctx, tenantry.Client(n), w.verb, contentType, body)
						Expect(err).To(Or(BeNil(), Satisfy(apierrors.IsBadRequest), Satisfy(apierrors.IsInvalid)), "%v in %q", given, n)
					}
					Expect(owner(ctx, "/registry/configmaps/foo/written/written")).To(Equal("foo"), "%v", given)
					Expect(owner(ctx, "/registry/configmaps/written/written")).To(BeEmpty(), "%v", given)
					Expect(stored(ctx, "foo").Annotations).To(HaveKeyWithValue(tenant.Annotation, "foo"))
					Expect(stored(ctx, "foobar").Data).To(HaveKeyWithValue("in", "foobar"))
				}
			})
		}
	}

	for contentType, encode := range encodings {
		It("take metadata.tenant: create in "+contentType, func(ctx SpecContext) {
			client := tenantry.Client("foo")
			for given, fits := range map[string]bool{"": true, "foo": true, "foobar": false, "system": false, "all": false} {
				Expect(client.CoreV1().ConfigMaps(written).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + written})).To(Succeed())
				body, err := encode(object(map[string]any{"tenant": given, "annotations": map[string]any{tenant.Annotation: "foobar", tenant.Former(tenant.Annotation): "foobar"}}))
				Expect(err).NotTo(HaveOccurred())
				err = send(ctx, client, http.MethodPost, contentType, body)
				if !fits {
					Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%q: %v", given, err)
					continue
				}
				Expect(err).NotTo(HaveOccurred(), "%q", given)
				Expect(owner(ctx, "/registry/configmaps/foo/written/written")).To(Equal("foo"))
			}
		})
	}

	It("delete with the UID of another space's object are refused", func(ctx SpecContext) {
		remove := func(n, of tenant.Name) error {
			options := metav1.NewPreconditionDeleteOptions(string(stored(ctx, of).UID))
			return tenantry.Client(n).CoreV1().ConfigMaps(written).Delete(ctx, written, *options)
		}
		for _, n := range spaces {
			for _, other := range spaces {
				if n != other {
					err := remove(n, other)
					Expect(apierrors.IsConflict(err)).To(BeTrue(), "%s with the UID of %s: %v", n, other, err)
				}
			}
		}
		Expect(remove("foo", "foo")).To(Succeed())
		Expect(stored(ctx, "foobar").UID).NotTo(BeEmpty())
		Expect(stored(ctx, tenant.System).UID).NotTo(BeEmpty())
	})

	It("show the tenant and the full path in JSON", func(ctx SpecContext) {
		for _, n := range spaces {
			raw, err := tenantry.Client(n).CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces", written, "configmaps", written).
				SetHeader("Accept", "application/json").DoRaw(ctx)
			Expect(err).NotTo(HaveOccurred())
			var shown struct {
				Metadata struct{ Tenant, SelfLink string }
			}
			Expect(json.Unmarshal(raw, &shown)).To(Succeed())
			if n == tenant.System { // which clients take for any other cluster
				Expect(shown.Metadata.Tenant).To(BeEmpty())
				Expect(shown.Metadata.SelfLink).To(Equal("/api/v1/namespaces/written/configmaps/written"))
				continue
			}
			Expect(shown.Metadata.Tenant).To(Equal(n.String()))
			Expect(shown.Metadata.SelfLink).To(Equal("/api/v1/tenants/" + n.String() + "/namespaces/written/configmaps/written"))
		}
	})
})

// owner returns the tenant annotation of what is stored at a key. Objects are
// stored as protobuf, in which strings stand as they are.
func owner(ctx context.Context, key string) string {
	GinkgoHelper()
	response, err := tenantry.Etcd().Get(ctx, key, clientv3.WithLimit(1))
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Kvs).To(HaveLen(1), key)
	object := decode(response.Kvs[0].Value)
	return object.Annotations[tenant.Former(tenant.Annotation)]
}
