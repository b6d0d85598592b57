package metrics

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/scheme"
)

func TestAllowed(t *testing.T) {
	allowed := Allowed(scheme.Scheme)
	for label, values := range map[string][]string{
		"apiserver_request_total,resource": {
			"", "pods", "endpoints", "ingresses", "networkpolicies", "storageclasses", "componentstatuses", "csistoragecapacities",
			"selfsubjectaccessreviews", "endpointslices",
		},
		"apiserver_storage_objects,resource":                         {"pods", "deployments.apps"},
		"apiserver_request_total,group":                              {"", "apps", "rbac.authorization.k8s.io"},
		"apiserver_request_total,version":                            {"v1", "v1beta1"},
		"apiserver_admission_webhook_request_total,name":             {""},
		"rest_client_requests_total,host":                            {""},
		"apiextensions_openapi_v2_regeneration_count,crd":            {""},
		"apiserver_crd_conversion_webhook_duration_seconds,crd_name": {""},
	} {
		found, ok := allowed[label]
		if !ok {
			t.Errorf("%s is not bounded", label)
		}
		for _, value := range values {
			if !slices.Contains(strings.Split(found, ","), value) {
				t.Errorf("%s: %q has no series of its own", label, value)
			}
		}
	}
}
