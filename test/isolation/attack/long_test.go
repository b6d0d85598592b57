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

// What upstream would say thousands of times, in gigabytes.
var _ = Describe("Long names", func() {
	long := strings.Repeat("k", 200_000)
	DescribeTable("are refused", func(ctx SpecContext, c call, status int, message string) {
		answer := newWire(tenantry.Config("a")).send(ctx, c, nil)
		Expect(answer.status).To(Equal(status), answer.body)
		Expect(answer.body).To(ContainSubstring(message))
	},
		Entry("in JSON", call{
			method: http.MethodPost, path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
			body: `{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"` + long + `":{"properties":{` + strings.Repeat(`"a":{},`, 4_000) + `"a":{}}}}}}}]}}`,
		}, http.StatusRequestEntityTooLarge, "in the names that lead to one of its fields"),
		Entry("when they are applied", call{
			method: http.MethodPatch, path: "/api/v1/namespaces/default/configmaps/long?fieldManager=f", contentType: string(types.ApplyYAMLPatchType),
			body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: long}\nx: {? " + long + " : {a: b}}\n",
		}, http.StatusRequestEntityTooLarge, "in the names that lead to one of its fields"),
		Entry("as keys of YAML that are aliases", call{
			method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", contentType: runtime.ContentTypeYAML,
			body: "apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {nonResourceAttributes: {path: /}}\nx: &a " + long + "\nq: {" + strings.Repeat("*a : z,", 8_000) + "}\n",
		}, http.StatusBadRequest, "with its aliases written out"),
		Entry("as keys of YAML that are merged again and again", call{
			method: http.MethodPost, path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", contentType: runtime.ContentTypeYAML,
			body: "f: [" + strings.Repeat("0,", 6_000) + "]\na: &a {? " + long + " : b, ? c" + long + " : d}\nq: {<<: [" + strings.Repeat("*a,", 3_000) + "]}\n",
		}, http.StatusBadRequest, "with its aliases written out"),
		Entry("in JSON patches", call{
			method: http.MethodPatch, path: "/api/v1/namespaces/default/configmaps/" + "kube-root-ca.crt", contentType: string(types.JSONPatchType),
			body: `[{"op":"add","path":"/x","value":{"` + strings.Repeat("k", 20_000) + `":{"a":"b"}}}]`,
		}, http.StatusRequestEntityTooLarge, "in the names that lead to one of its fields"),
	)
})

// What upstream would read or compare for hours.
var _ = Describe("Numbers with long exponents", func() {
	const (
		pods        = "/api/v1/namespaces/default/pods"
		scaler      = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
		deployments = "/apis/apps/v1/namespaces/default/deployments"
	)
	limited := func(cpu string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"long"},"spec":{"containers":[{"name":"c","image":"i"}],"resources":{"limits":{"cpu":"` + cpu + `"}}}}`
	}
	DescribeTable("are refused", func(ctx SpecContext, c call, message string) {
		answer := newWire(tenantry.Config("a")).send(ctx, c, nil)
		Expect(answer.status).To(BeElementOf(http.StatusBadRequest, http.StatusUnprocessableEntity), answer.body)
		Expect(answer.body).To(ContainSubstring(message))
	},
		Entry("when they are read", call{method: http.MethodPost, path: pods, body: limited("1e-1000000000")}, "the number"),
		Entry("when defaults are set", call{method: http.MethodPost, path: pods, body: limited("1e999999999")}, "a quantity"),
		Entry("in YAML", call{method: http.MethodPost, path: pods, contentType: runtime.ContentTypeYAML, body: `{apiVersion: v1, kind: Pod, metadata: {name: long}, spec: {overhead: {cpu: "\x31e-1000000000"}}}`}, "the number"),
		Entry("when they are applied", call{method: http.MethodPatch, path: pods + "/long?fieldManager=f", contentType: string(types.ApplyYAMLPatchType), body: limited("1e999999999")}, "a quantity"),
		Entry("in annotations", call{method: http.MethodPost, path: scaler, body: `{"metadata":{"name":"long","annotations":{"autoscaling.alpha.kubernetes.io/metrics":` +
			`"[{\"type\":\"Resource\",\"resource\":{\"name\":\"cpu\",\"targetAverageValue\":\"1e-1000000000\"}}]"}},"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"Deployment","name":"d"}}}`}, "the number"),
	)

	It("are refused when a patch copies them, and stay what they are elsewhere", func(ctx SpecContext) {
		deployment := `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"long","labels":{"version":"1e1000000"}},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
			`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1"}}}]}}}}`
		wire := newWire(tenantry.Config("a"))
		answer := wire.send(ctx, call{method: http.MethodPost, path: deployments, body: deployment}, nil)
		Expect(answer.status).To(Equal(http.StatusCreated), answer.body)
		answer = wire.send(ctx, call{
			method: http.MethodPatch, path: deployments + "/long", contentType: string(types.JSONPatchType),
			body: `[{"op":"copy","from":"/metadata/labels/version","path":"/spec/template/spec/containers/0/resources/limits/cpu"}]`,
		}, nil)
		Expect(answer.status).To(BeElementOf(http.StatusBadRequest, http.StatusUnprocessableEntity), answer.body)
		Expect(answer.body).To(ContainSubstring("a quantity"))
		answer = wire.send(ctx, call{
			method: http.MethodPatch, path: deployments + "/long", contentType: string(types.StrategicMergePatchType),
			body: `{"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"1e999999999"}}}]}}}}`,
		}, nil)
		Expect(answer.status).To(Equal(http.StatusForbidden), answer.body)
		Expect(answer.body).To(ContainSubstring("a quantity"))
	})
})
