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

// WithDecoded returns a context in which a list gives each of its objects to decoded, and ends with the first error of
// that. If the context has one already, that goes first, so that this one gets what it returns, and nothing when it has
// failed: whoever leaves out what cannot be decoded does so first. Otherwise it would take for such what those refuse
// who count what the list has, and they would not count what it puts there.
func WithDecoded(ctx context.Context, decoded Decoded) context.Context {
	if before, ok := ctx.Value(decodedKey{}).(Decoded); ok {
		next := decoded
		decoded = func(data []byte, obj apiruntime.Object, err error) (apiruntime.Object, error) {
			if obj, err = before(data, obj, err); err != nil {
				return nil, err
			}
			return next(data, obj, nil)
		}
	}
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
