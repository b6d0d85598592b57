package spacepolicy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestLimits checks that a pod is refused to which LimitRanges would add gigabytes.
func TestLimits(t *testing.T) {
	names := func(n int) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := range n {
			list[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = resource.MustParse("1")
		}
		return list
	}
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: names(400), DefaultRequest: names(400), Max: names(100), Min: names(50), MaxLimitRequestRatio: names(49)}
	ranges := []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item, item}}}} // 2,000
	for name, tc := range map[string]struct {
		containers, initial int
		subresource         string
		operation           admission.Operation
		err                 error
		message             string
	}{
		"at the limit":     {containers: 30, initial: 20},
		"beyond it":        {containers: 31, initial: 20, message: "it has 51 containers, and the LimitRanges of its namespace say 2000 things of each"},
		"when resized":     {containers: 51, subresource: "resize", message: "containers"},
		"a status":         {containers: 51, subresource: "status"},
		"an update":        {containers: 51, operation: admission.Update},
		"nothing is known": {containers: 1, err: errors.New("not synced"), message: "not synced"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.operation == "" {
				tc.operation = admission.Create
			}
			rules := Rules{LimitRanges: func(n tenant.Name, namespace string) ([]*corev1.LimitRange, error) {
				if n != "acme" || namespace != "ns" {
					t.Errorf("asked for %s in %s", namespace, n)
				}
				return ranges, tc.err
			}}
			pod := &core.Pod{Spec: core.PodSpec{Containers: make([]core.Container, tc.containers), InitContainers: make([]core.Container, tc.initial)}}
			a := admission.NewAttributesRecord(pod, nil, core.Kind("Pod").WithVersion("v1"), "ns", "p", core.Resource("pods").WithVersion("v1"), tc.subresource, tc.operation, nil, false, nil)
			err := rules.checkLimits(a, "acme")
			if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %v, want %q", err, tc.message)
			}
		})
	}
}
