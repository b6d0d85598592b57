package spacepolicy

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"
)

func TestCheckElements(t *testing.T) {
	labels := func(count int) map[string]string {
		m := make(map[string]string)
		for i := range count {
			m[strings.Repeat("k", i)] = ""
		}
		return m
	}
	for name, tc := range map[string]struct {
		object  runtime.Object
		refused bool
	}{
		"usual":             {&core.Service{Spec: core.ServiceSpec{Ports: make([]core.ServicePort, maxElements)}}, false},
		"too many ports":    {&core.Service{Spec: core.ServiceSpec{Ports: make([]core.ServicePort, maxElements+1)}}, true},
		"too many commands": {&core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Args: make([]string, maxElements+1)}}}}, true},
		"much data":         {&core.Secret{Data: map[string][]byte{"k": make([]byte, 10*maxElements)}}, false},
		"too many labels":   {&core.Secret{ObjectMeta: metav1.ObjectMeta{Labels: labels(maxEntries + 1)}}, true},
		"custom resource":   {&unstructured.Unstructured{Object: map[string]any{"list": make([]any, maxElements+1)}}, false},
		"none":              {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := admission.NewAttributesRecord(tc.object, nil, core.SchemeGroupVersion.WithKind("X"), "default", "x",
				core.SchemeGroupVersion.WithResource("xs"), "", admission.Create, nil, false, nil)
			if err := CheckElements(a); (err != nil) != tc.refused {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}
