package cachememory

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/process/memory"
)

const (
	// ordinary is how many times its bytes in etcd an object takes in memory: a pod takes 2.5, an EndpointSlice 2.9.
	// Stored bytes bound that, and what is beyond it counts: text beside what is dense does not hide that.
	ordinary = 3
	// smallObject is how many bytes more do not count: what small objects have in their metadata.
	smallObject = 1 << 10
	// builtInCopies are those of a built-in object: one in its watch cache, and one in an informer of the server.
	builtInCopies = 2
)

// weightOf returns what an object counts that takes so many bytes of memory.
func weightOf(obj runtime.Object, bytes int) int {
	if _, custom := obj.(*unstructured.Unstructured); custom {
		return bytes
	}
	return beyondOrdinary(obj, bytes) + madeOf(obj)
}

// beyondOrdinary returns what a built-in object takes beyond what its stored bytes count for.
func beyondOrdinary(obj runtime.Object, bytes int) int {
	if bytes <= smallObject {
		return 0
	}
	return builtInCopies * max(0, bytes-smallObject-ordinary*memory.Encoded(obj))
}
