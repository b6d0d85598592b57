// Package dense makes objects of few bytes that take much memory.
package dense

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Widget returns a custom resource that has so many maps, of which each takes some 350 bytes of memory.
func Widget(name string, maps int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Widget")
	object.SetNamespace("ns")
	object.SetName(name)
	list := make([]any, maps)
	for i := range list {
		list[i] = map[string]any{"": int64(0)}
	}
	object.Object["list"] = list
	return object
}
