package etcdstore

import (
	"context"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

type decodedKey struct{}

// WithDecoded returns a context in which a list gives each of its objects to decoded as soon as
// it is decoded, and ends with the first error of that.
func WithDecoded(ctx context.Context, decoded func(apiruntime.Object) error) context.Context {
	return context.WithValue(ctx, decodedKey{}, decoded)
}

// decoder is upstream's for lists with WithDecoded.
type decoder struct{ etcd3.Decoder }

// DecodeListItem implements etcd3.Decoder.
func (d decoder) DecodeListItem(ctx context.Context, data []byte, rev uint64, newItemFunc func() apiruntime.Object) (apiruntime.Object, error) {
	obj, err := d.Decoder.DecodeListItem(ctx, data, rev, newItemFunc)
	if decoded, ok := ctx.Value(decodedKey{}).(func(apiruntime.Object) error); ok && err == nil {
		err = decoded(obj)
	}
	return obj, err
}
