package etcdstore

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
)

type concurrentKey struct{}

// Concurrent decodes the custom resources of a list, several at once: a conversion webhook is asked for each, and
// answers when it can.
type Concurrent struct {
	ctx   context.Context
	group *errgroup.Group
}

// WithConcurrent returns a context in which a list decodes up to limit custom resources at once. Until Wait has
// returned, those in the list are incomplete, and nobody may read them: its predicate must be empty.
func WithConcurrent(ctx context.Context, limit int) (context.Context, *Concurrent) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	c := &Concurrent{groupCtx, group}
	return context.WithValue(ctx, concurrentKey{}, c), c
}

// decode returns an object at once whose fields come later. It waits while as many as may be are being decoded.
func (c *Concurrent) decode(decode func() (apiruntime.Object, error)) (apiruntime.Object, error) {
	later := &unstructured.Unstructured{Object: map[string]any{}}
	c.group.Go(func() error {
		obj, err := decode()
		if err != nil {
			return err
		}
		decoded, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%T is not a custom resource", obj)
		}
		maps.Copy(later.Object, decoded.Object)
		return nil
	})
	return later, c.ctx.Err()
}

// Wait waits until all objects of a list that has ended are complete. It returns the error of the first object that
// failed, or the list's own.
func (c *Concurrent) Wait(listed error) error {
	if err := c.group.Wait(); err != nil {
		return err
	}
	return listed
}
