package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestShallowCopy(t *testing.T) {
	for name, obj := range map[string]runtime.Object{
		"typed":        &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}},
		"unstructured": &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": "n", "name": "p"}}},
	} {
		t.Run(name, func(t *testing.T) {
			copied := ShallowCopy(obj).(metav1.Object)
			copied.SetNamespace("other")
			if got := obj.(metav1.Object).GetNamespace(); got != "n" || copied.GetNamespace() != "other" || copied.GetName() != "p" {
				t.Errorf("got %q in the original, %q in the copy", got, copied.GetNamespace())
			}
		})
	}
}

func TestWithKey(t *testing.T) {
	for name, tc := range map[string]struct {
		m     map[string]string
		value string
		want  map[string]string
	}{
		"none":           {nil, "", nil},
		"the first":      {nil, "v", map[string]string{"k": "v"}},
		"another":        {map[string]string{"k": "w", "l": "x"}, "v", map[string]string{"k": "v", "l": "x"}},
		"the same":       {map[string]string{"k": "v"}, "v", map[string]string{"k": "v"}},
		"taken away":     {map[string]string{"k": "v", "l": "x"}, "", map[string]string{"l": "x"}},
		"empty, is away": {map[string]string{"k": ""}, "", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[string]string{}
			for k, v := range tc.m {
				before[k] = v
			}
			if diff := cmp.Diff(tc.want, WithKey(tc.m, "k", tc.value)); diff != "" {
				t.Error(diff)
			}
			if len(before) != len(tc.m) || before["k"] != tc.m["k"] {
				t.Errorf("the map itself is %v", tc.m)
			}
		})
	}
}
