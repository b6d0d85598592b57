package etcdstore

import (
	"context"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// Decoded gets an object of a list as soon as it is decoded, with what etcd has of it, or why it cannot be. What it
// returns is in the list.
type Decoded func(data []byte, obj apiruntime.Object, err error) (apiruntime.Object, error)

type decodedKey struct{}

// WithDecoded returns a context in which a list gives each of its objects to decoded, and ends with the first error of that.
func WithDecoded(ctx context.Context, decoded Decoded) context.Context {
	return context.WithValue(ctx, decodedKey{}, decoded)
}

// decoder is upstream's for lists with WithDecoded and WithConcurrent.
type decoder struct{ etcd3.Decoder }

// DecodeListItem implements etcd3.Decoder.
func (d decoder) DecodeListItem(ctx context.Context, data []byte, rev uint64, newItemFunc func() apiruntime.Object) (apiruntime.Object, error) {
	if several, ok := ctx.Value(concurrentKey{}).(*Concurrent); ok {
		return several.decode(func() (apiruntime.Object, error) { return d.decode(ctx, data, rev, newItemFunc) })
	}
	return d.decode(ctx, data, rev, newItemFunc)
}

func (d decoder) decode(ctx context.Context, data []byte, rev uint64, newItemFunc func() apiruntime.Object) (apiruntime.Object, error) {
	obj, err := d.Decoder.DecodeListItem(ctx, data, rev, newItemFunc)
	decoded, ok := ctx.Value(decodedKey{}).(Decoded)
	if !ok {
		return obj, err
	}
	instead, failed := decoded(data, obj, err)
	if err != nil && failed == nil {
		failed = storage.APIObjectVersioner{}.UpdateObject(instead, rev)
	}
	return instead, failed
}
