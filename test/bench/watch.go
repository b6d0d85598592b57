package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// watchers is how many watches see each change.
const watchers = 10

// audience waits for changes to be seen by all watches. The objects are named by
// their index, and each changes once.
type audience struct {
	seen []atomic.Int32
	all  []chan struct{} // closed when every watch has seen the change
}

// watchAll opens the watches; they end with ctx.
func watchAll(ctx context.Context, maps coreclient.ConfigMapInterface, objects int) (*audience, error) {
	a := &audience{seen: make([]atomic.Int32, objects), all: make([]chan struct{}, objects)}
	for i := range a.all {
		a.all[i] = make(chan struct{})
	}
	for range watchers {
		events, err := maps.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		go func() {
			for event := range events.ResultChan() {
				changed, ok := event.Object.(*corev1.ConfigMap)
				if !ok || event.Type != watch.Modified {
					continue
				}
				if i := indexOf(changed.Name); i >= 0 && i < objects && a.seen[i].Add(1) == watchers {
					close(a.all[i])
				}
			}
		}()
	}
	return a, nil
}

// await returns when every watch has seen the change of object i.
func (a *audience) await(ctx context.Context, i int) error {
	select {
	case <-a.all[i]:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d watches have seen change %d: %w", a.seen[i].Load(), watchers, i, context.Cause(ctx))
	}
}
