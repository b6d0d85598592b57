package etcdstore

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// namesOnly decodes a ConfigMap from its name, which fails without one.
type namesOnly struct{ etcd3.Decoder }

var errNoName = errors.New("it has no name")

func (namesOnly) DecodeListItem(_ context.Context, data []byte, _ uint64, _ func() apiruntime.Object) (apiruntime.Object, error) {
	if len(data) == 0 {
		return nil, errNoName
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: string(data), ResourceVersion: "7"}}, nil
}

// TestWithDecoded checks that a list gives its objects to all who want them, in the order in which they have said so,
// until one refuses.
func TestWithDecoded(t *testing.T) {
	errFull := errors.New("the list is full")
	seen := ""
	ctx := WithDecoded(t.Context(), func(_ []byte, obj apiruntime.Object, err error) (apiruntime.Object, error) {
		if errors.Is(err, errNoName) {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "left-out"}}, nil
		}
		return obj, err
	})
	ctx = WithDecoded(ctx, func(_ []byte, obj apiruntime.Object, err error) (apiruntime.Object, error) {
		if err != nil {
			return nil, err
		}
		if seen = obj.(*corev1.ConfigMap).Name; seen == "last" {
			return nil, errFull
		}
		return obj, nil
	})
	asked := false
	ctx = WithDecoded(ctx, func(_ []byte, obj apiruntime.Object, err error) (apiruntime.Object, error) {
		asked = true
		return obj, err
	})
	for _, c := range []struct {
		data, want string
		err        error
	}{{data: "a", want: "a"}, {data: "", want: "left-out"}, {data: "last", want: "last", err: errFull}} {
		seen, asked = "", false
		obj, err := decoder{namesOnly{}}.DecodeListItem(ctx, []byte(c.data), 7, nil)
		if seen != c.want || !errors.Is(err, c.err) || asked != (c.err == nil) {
			t.Errorf("%q is seen as %q, with %v, and by the last: %v", c.data, seen, err, asked)
		}
		if object, ok := obj.(*corev1.ConfigMap); err == nil && (!ok || object.Name != c.want || object.ResourceVersion != "7") {
			t.Errorf("in place of %q the list has %v", c.data, obj)
		}
	}
}
