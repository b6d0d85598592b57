package attack

import (
	"bytes"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsscheme "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/scheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// What upstream would take minutes or hours for, in code that does not end with its request.
var _ = Describe("Bodies with long lists", func() {
	list := func(element string, length int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", length), ",") + "]"
	}
	protobuf := func(object runtime.Object) string {
		GinkgoHelper()
		info, ok := runtime.SerializerInfoForMediaType(apiextensionsscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
		Expect(ok).To(BeTrue())
		var body bytes.Buffer
		encoder := apiextensionsscheme.Codecs.EncoderForVersion(info.Serializer, apiextensionsv1.SchemeGroupVersion)
		Expect(encoder.Encode(object, &body)).To(Succeed())
		return body.String()
	}
	refused := func(ctx SpecContext, c call) {
		GinkgoHelper()
		answer := newWire(tenantry.Config("a")).send(ctx, c, nil)
		Expect(answer.status).To(Equal(http.StatusRequestEntityTooLarge), answer.body)
		Expect(answer.body).To(ContainSubstring("it has more than "))
	}
	const configMaps = "/api/v1/namespaces/default/configmaps"

	It("of owners are refused", func(ctx SpecContext) {
		refused(ctx, call{
			method: http.MethodPost, path: configMaps,
			body: `{"metadata":{"generateName":"long-","ownerReferences":` + list(`{"uid":"u","name":"o"}`, 120_000) + "}}",
		})
	})

	It("are refused in strategic merge patches", func(ctx SpecContext) {
		refused(ctx, call{
			method: http.MethodPatch, path: configMaps + "/" + name, contentType: string(types.StrategicMergePatchType),
			body: `{"metadata":{"$setElementOrder/ownerReferences":` + list(`{"uid":"u"}`, 250_000) + "}}",
		})
	})

	It("are refused in protobuf, whose types have codecs of their own", func(ctx SpecContext) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		definition.Spec.Names.Categories = make([]string, 10_001)
		refused(ctx, call{
			method: http.MethodPost, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", contentType: runtime.ContentTypeProtobuf,
			body: protobuf(definition),
		})
	})
})
