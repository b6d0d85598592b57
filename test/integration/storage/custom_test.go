package storage

import (
	"encoding/json"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

var _ = Describe("Custom resources", Ordered, func() {
	spaces := []tenant.Name{tenant.System, "foo", "foobar"}
	const plural, path = "labelledthings", "/apis/storage.test/v1/namespaces/default/labelledthings"
	former := tenant.Former(tenant.Annotation) // by which etcd has it
	stored := func(ctx SpecContext, n tenant.Name) map[string]any {
		GinkgoHelper()
		response, err := tenantry.Etcd().Get(ctx, "/registry/storage.test/"+plural+"/"+segment(n)+"default/thing", clientv3.WithLimit(1))
		Expect(err).NotTo(HaveOccurred())
		Expect(response.Kvs).To(HaveLen(1))
		var object struct{ Metadata map[string]any }
		Expect(json.Unmarshal(response.Kvs[0].Value, &object)).To(Succeed())
		return object.Metadata
	}
	thing := func(metadata map[string]any) any {
		metadata["name"] = "thing"
		return map[string]any{"apiVersion": "storage.test/v1", "kind": kindOf(plural), "metadata": metadata}
	}

	BeforeAll(func(ctx SpecContext) {
		for _, n := range spaces {
			define(ctx, n, plural, apiextensionsv1.NamespaceScoped)
		}
		for _, n := range spaces {
			client := tenantry.Client(n).CoreV1().RESTClient()
			body, err := json.Marshal(thing(map[string]any{}))
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() error {
				return client.Post().AbsPath(path).Body(body).Do(ctx).Error()
			}).WithContext(ctx).WithTimeout(timeout).Should(Succeed(), "in %s", n)
		}
	}, NodeTimeout(timeout))

	It("cannot be moved by an annotation of whatever type", func(ctx SpecContext) {
		for _, n := range []tenant.Name{tenant.System, "foo"} {
			client := tenantry.Client(n).CoreV1().RESTClient()
			for _, value := range []any{"foobar", "foo", "", "system", nil, 5, true, []any{"foobar"}, map[string]any{"foobar": "foobar"}} {
				for _, annotations := range []any{
					map[string]any{tenant.Annotation: value}, map[string]any{tenant.Annotation: value, "other": 5}, value,
					map[string]any{former: value}, map[string]any{former: value, "other": 5}, map[string]any{former: value, tenant.Annotation: value},
				} {
					metadata := func() map[string]any { return map[string]any{"annotations": annotations} }
					for _, w := range []write{
						{"update", http.MethodPut, "application/json", thing},
						{"apply", http.MethodPatch, string(types.ApplyYAMLPatchType), thing},
						{"merge patch", http.MethodPatch, string(types.MergePatchType), mergePatch},
						{"JSON patch", http.MethodPatch, string(types.JSONPatchType), jsonPatch},
					} {
						body, err := json.Marshal(w.body(metadata()))
						Expect(err).NotTo(HaveOccurred())
						request := client.Verb(w.verb).AbsPath(path+"/thing").SetHeader("Content-Type", w.contentType).Body(body)
						if w.contentType == string(types.ApplyYAMLPatchType) {
							request = request.Param("fieldManager", "test").Param("force", "true")
						}
						_ = request.Do(ctx).Error() // refused or ignored, as upstream's rules for malformed metadata say
						annotationsOf, _ := stored(ctx, n)["annotations"].(map[string]any)
						owner, ok := annotationsOf[former]
						what := fmt.Sprintf("%s of %v in %s", w.name, annotations, n)
						if n == tenant.System {
							Expect(ok).To(BeFalse(), what)
						} else {
							Expect(owner).To(Equal(n.String()), what)
						}
					}
				}
			}
		}
		for _, n := range spaces {
			for _, key := range keys(ctx, "/registry/storage.test/"+plural+"/") {
				Expect(key).To(HaveSuffix("default/thing"), "in %s", n)
			}
		}
		Expect(keys(ctx, "/registry/storage.test/"+plural+"/")).To(HaveLen(len(spaces)))
	}, SpecTimeout(timeout))
})
