package serializer

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/bounds"
)

// bounded refuses numbers that take long to decode or compare, before upstream adds defaults
// and converts what was decoded. What a JSON patch or a merge patch has made is decoded
// here, too. In the quotas of Tenantry's own objects, a limit without a value is none.
type bounded struct {
	runtime.Serializer
	mediaType string
}

// quotas are the kinds of Tenantry whose objects have limits by name.
var quotas = map[schema.GroupKind]bool{
	{Group: v1alpha1.GroupVersion.Group, Kind: "Tenant"}:       true,
	{Group: v1alpha1.GroupVersion.Group, Kind: "KeystoneSync"}: true,
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
	if obj != nil && gvk != nil && quotas[gvk.GroupKind()] {
		if err := b.checkLimits(data); err != nil {
			return nil, gvk, err
		}
	}
	if obj != nil && found { // strict errors are beside an object
		if err := bounds.Quantities(obj); err != nil {
			return nil, gvk, err
		}
	}
	return obj, gvk, err
}

// checkLimits refuses limits without a value. Protobuf, which the types of Tenantry have not, has none.
func (b bounded) checkLimits(data []byte) error {
	if b.mediaType == runtime.ContentTypeYAML {
		var err error
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return err
		}
	}
	return v1alpha1.CheckNullLimits(data)
}
