package spacepolicy

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestCheckElements(t *testing.T) {
	labels := func(count int) map[string]string {
		m := make(map[string]string)
		for i := range count {
			m[strings.Repeat("k", i%300)+strings.Repeat("v", i/300)] = ""
		}
		return m
	}
	custom := func(length int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"list": make([]any, length)}}
	}
	for name, tc := range map[string]struct {
		object  runtime.Object
		refused bool
	}{
		"usual":             {&core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Args: make([]string, 10_000)}}}}, false},
		"too many ports":    {&core.Service{Spec: core.ServiceSpec{Ports: make([]core.ServicePort, 10_001)}}, true},
		"too many commands": {&core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Args: make([]string, 10_001)}}}}, true},
		"much data":         {&core.Secret{Data: map[string][]byte{"k": make([]byte, 100_000)}}, false},
		"labels":            {&core.Secret{ObjectMeta: metav1.ObjectMeta{Labels: labels(20_000)}}, false},
		"too many labels":   {&core.Secret{ObjectMeta: metav1.ObjectMeta{Labels: labels(20_001)}}, true},
		"custom resource":   {custom(10_000), false},
		"a long custom one": {custom(10_001), true},
		"none":              {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := admission.NewAttributesRecord(tc.object, nil, core.SchemeGroupVersion.WithKind("X"), "default", "x",
				core.SchemeGroupVersion.WithResource("xs"), "", admission.Create, nil, false, nil)
			if err := Definitions(nil).CheckBounds(a, "a"); (err != nil) != tc.refused {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}

// TestManyOwnersAreNotLookedAt checks that the length of an object is checked before what is
// in it, in spaces alone.
func TestManyOwnersAreNotLookedAt(t *testing.T) {
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: slices.Repeat([]metav1.OwnerReference{{Name: ".."}}, 65)}}
	for n, message := range map[tenant.Name]string{"a": "more than 64 ownerReferences", tenant.System: "must be that of an object"} {
		a := admission.NewAttributesRecord(pod, nil, core.SchemeGroupVersion.WithKind("Pod"), "default", "x",
			core.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, member)
		ctx := tenant.WithSpace(t.Context(), n)
		if err := plugin.Admit(ctx, a, nil); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s: error %.200v, want %q", n, err, message)
		}
	}
}
