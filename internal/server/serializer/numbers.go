package serializer

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/bounds"
)

// bounded refuses numbers that take long to decode or compare, before upstream adds defaults
// and converts what was decoded. What a JSON patch or a merge patch has made is decoded
// here, too.
type bounded struct {
	runtime.Serializer
	mediaType string
}

// boundNumbers returns delegate with its numbers checked.
func boundNumbers(delegate runtime.Serializer, mediaType string) runtime.Serializer {
	switch delegate := delegate.(type) {
	case nil:
		return nil
	case runtime.EncoderWithAllocator:
		return struct {
			runtime.Decoder
			runtime.EncoderWithAllocator
		}{bounded{delegate.(runtime.Serializer), mediaType}, delegate}
	default:
		return bounded{delegate, mediaType}
	}
}

// Decode implements runtime.Decoder.
func (b bounded) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	found, err := bounds.Numbers(b.mediaType, data)
	if err != nil {
		return nil, nil, err
	}
	obj, gvk, err := b.Serializer.Decode(data, defaults, into)
	if obj != nil && found { // strict errors are beside an object
		if err := bounds.Quantities(obj); err != nil {
			return nil, gvk, err
		}
	}
	return obj, gvk, err
}
