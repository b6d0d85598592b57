package storage

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// TestEndedRequests checks that a request which ends with its tenant while admission
// takes its time changes nothing any more: the object that it is about may be that of
// the next tenant of this name.
func TestEndedRequests(t *testing.T) {
	configMaps := newBackend(t).configMaps(t, true)
	configMaps.create(t, "a", "ns", "kept")
	key := configMaps.key("ns", "kept")
	for name, do := range map[string]func(context.Context, context.CancelFunc) error{
		"deletion": func(ctx context.Context, end context.CancelFunc) error {
			slow := func(context.Context, runtime.Object) error {
				end()
				return nil
			}
			return configMaps.Delete(ctx, key, &corev1.ConfigMap{}, nil, slow, nil, storage.DeleteOptions{})
		},
		"update": func(ctx context.Context, end context.CancelFunc) error {
			return configMaps.GuaranteedUpdate(ctx, key, &corev1.ConfigMap{}, false, nil,
				func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
					input.(*corev1.ConfigMap).Data = map[string]string{"k": "changed"}
					end()
					return input, nil, nil
				}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			lower := &outliving{Interface: configMaps.Interface}
			configMaps.Interface = lower
			defer func() { configMaps.Interface = lower.Interface }()
			ctx, end := context.WithCancel(configMaps.in(t, "a", "ns"))
			defer end()
			if err := do(ctx, end); !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want that the request has ended", err)
			}
			kept := &corev1.ConfigMap{}
			if err := configMaps.Get(configMaps.in(t, "a", "ns"), key, storage.GetOptions{}, kept); err != nil {
				t.Fatal(err)
			}
			if len(kept.Data) > 0 {
				t.Errorf("the object was changed: %v", kept.Data)
			}
		})
	}
}

// outliving is storage that does not notice the end of a request by itself.
type outliving struct{ storage.Interface }

func (o *outliving) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	seen := func(_ context.Context, obj runtime.Object) error { return validate(ctx, obj) }
	return o.Interface.Delete(context.WithoutCancel(ctx), key, out, preconditions, seen, cached, opts)
}

func (o *outliving) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	return o.Interface.GuaranteedUpdate(context.WithoutCancel(ctx), key, destination, ignoreNotFound, preconditions, tryUpdate, cached)
}
