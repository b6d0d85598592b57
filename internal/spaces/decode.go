package spaces

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// flatteningSerializer makes a client's decoders return flattened objects.
type flatteningSerializer struct {
	runtime.NegotiatedSerializer
}

func (s flatteningSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return flatteningDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type flatteningDecoder struct {
	runtime.Decoder
}

func (d flatteningDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := d.Decoder.Decode(data, defaults, into)
	if err != nil {
		return obj, kind, err
	}
	if err := flattenAll(obj); err != nil {
		return nil, kind, err
	}
	return obj, kind, nil
}
