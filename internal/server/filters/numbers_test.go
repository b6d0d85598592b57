package filters

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestLongNumbers checks what upstream decodes without a serializer: it would take hours to
// read some numbers in patches, and to compare others to set the defaults of a pod.
func TestLongNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		contentType    types.PatchType
		resource, body string
		message        string
	}{
		"strategic merge":                      {types.StrategicMergePatchType, "pods", `{"spec":{"resources":{"limits":{"cpu":"1e-1000"}}}}`, "the number"},
		"strategic merge, small":               {types.StrategicMergePatchType, "pods", `{"spec":{"resources":{"limits":{"cpu":"1e-100"}}}}`, ""},
		"strategic merge of a pod":             {types.StrategicMergePatchType, "pods", `{"spec":{"resources":{"limits":{"cpu":"1e100000"}}}}`, "a quantity"},
		"strategic merge with a directive":     {types.StrategicMergePatchType, "pods", `{"spec":{"resources":{"limits":{"$patch":"replace","cpu":"1e100000"}}}}`, "write"},
		"strategic merge of a label":           {types.StrategicMergePatchType, "pods", `{"metadata":{"labels":{"version":"1e123456"}}}`, ""},
		"strategic merge of a list":            {types.StrategicMergePatchType, "pods", `{"metadata":{"labels":{"version":"1e123456"}},"spec":{"containers":[{"name":"c","$patch":"delete"}],"$setElementOrder/containers":[{"name":"d"}]}}`, ""},
		"strategic merge, compared later":      {types.StrategicMergePatchType, "limitranges", `{"spec":{"limits":[{"max":{"cpu":"1e100000"}}]}}`, ""},
		"strategic merge with JSON in a text":  {types.StrategicMergePatchType, "horizontalpodautoscalers", `{"metadata":{"annotations":{"a":"[{\"averageValue\":1e-1000}]"}}}`, "the number"},
		"applied":                              {types.ApplyYAMLPatchType, "pods", "{kind: Pod, apiVersion: v1, spec: {resources: {limits: {cpu: '1e-1000'}}}}", "the number"},
		"applied JSON":                         {types.ApplyYAMLPatchType, "pods", `{"kind":"Pod","apiVersion":"v1","spec":{"resources":{"limits":{"cpu":"1\u0065-1000"}}}}`, "the number"},
		"applied to a pod":                     {types.ApplyYAMLPatchType, "pods", "kind: Pod\napiVersion: v1\nspec: {resources: {limits: {cpu: '1e100000'}}}\n", "a quantity"},
		"an applied label":                     {types.ApplyYAMLPatchType, "pods", "kind: Pod\napiVersion: v1\nmetadata: {labels: {version: 1e123456}}\n", ""},
		"merge, decoded with the stored parts": {types.MergePatchType, "pods", `{"spec":{"resources":{"limits":{"cpu":"1e-1000"}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []tenant.Name{"a", tenant.System} {
				req := newRequest(http.MethodPatch, string(tc.contentType), strings.NewReader(tc.body))
				info := &request.RequestInfo{IsResourceRequest: true, Verb: "patch", APIVersion: "v1", Resource: tc.resource}
				status, message := sendRequest(t, n, req.WithContext(request.WithRequestInfo(req.Context(), info)), []byte(tc.body))
				if want := tc.message; (want == "") != (status == http.StatusOK) || want != "" && (status != http.StatusBadRequest || !strings.Contains(message, want)) {
					t.Errorf("in %q: got %d %q, want %q", n, status, message, want)
				}
			}
		})
	}
}
