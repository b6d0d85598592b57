package crd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// purgePeriod is when to look again whether the objects of a deleted definition
	// have gone.
	purgePeriod = time.Second
	// purgeAfter is how long after its deletion there are no more requests that do not
	// know of it.
	purgeAfter = 2 * time.Second
	// atOnce is how many definitions are looked at at once, and in how many spaces objects of each are deleted.
	// purgeTime is how long that takes in one space at most before the others are looked at again: webhooks may take
	// very long.
	atOnce    = 16
	purgeTime = 5 * time.Second
)

// purge deletes what spaces have of published definitions that are being deleted, as
// upstream does in the system space, and then lets the definitions go.
func (s *Servers) purge(ctx context.Context) error {
	return each(ctx, s.index.deleted(), func(name string) error {
		done, err := s.purgeDefinition(ctx, name)
		if err != nil {
			return fmt.Errorf("deleting the objects of definition %q in all spaces: %w", name, err)
		}
		if !done {
			s.purges.AddAfter(tenant.System, purgePeriod)
		}
		return nil
	})
}

// each calls do with some of what there is at once, until ctx ends, and returns all errors.
func each[T any](ctx context.Context, all []T, do func(T) error) error {
	failed := make([]error, len(all))
	workqueue.ParallelizeUntil(ctx, atOnce, len(all), func(i int) { failed[i] = do(all[i]) })
	return errors.Join(failed...)
}

func (s *Servers) purgeDefinition(ctx context.Context, name string) (done bool, err error) {
	definition, err := s.definition(ctx, name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case definition.DeletionTimestamp == nil, time.Since(definition.DeletionTimestamp.Time) < purgeAfter:
		return false, nil
	case !slices.Contains(definition.Finalizers, tenant.PublishedDefinitionFinalizer):
		return true, nil
	}
	if apiextensionshelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
		resource, ok := servedVersion(definition)
		if !ok {
			return false, errors.New("it serves no version; set served for one of them")
		}
		if left, err := s.deleteAll(ctx, resource); err != nil || left > 0 {
			return false, err
		}
	}
	return s.release(ctx, definition)
}

// deleteAll deletes the objects of a resource in all spaces and returns how many there
// were.
func (s *Servers) deleteAll(ctx context.Context, resource schema.GroupVersionResource) (int, error) {
	all, err := s.metadataIn(tenant.All)
	if err != nil {
		return 0, err
	}
	list, err := all.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	places := map[tenant.Name]sets.Set[string]{}
	for i := range list.Items {
		if object := &list.Items[i]; object.DeletionTimestamp == nil {
			keyed.Set(places, spaceOf(object), object.Namespace, sets.Empty{})
		}
	}
	// A tenant's webhook may refuse; others' objects go nevertheless.
	return len(list.Items), each(ctx, slices.Collect(maps.Keys(places)), func(space tenant.Name) error {
		ctx, cancel := context.WithTimeout(ctx, purgeTime)
		defer cancel()
		if err := s.deleteIn(ctx, space, resource, places[space]); err != nil {
			return fmt.Errorf("in the space of tenant %q: %w", space, err)
		}
		return nil
	})
}

// deleteIn deletes the objects of a resource in namespaces of a space.
func (s *Servers) deleteIn(ctx context.Context, space tenant.Name, resource schema.GroupVersionResource, namespaces sets.Set[string]) error {
	client, err := s.metadataIn(space.Scope())
	if err != nil {
		return err
	}
	var failed []error
	for namespace := range namespaces {
		failed = append(failed, client.Resource(resource).Namespace(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// systemDefinitions returns a client of the definitions of the system space.
func (s *Servers) systemDefinitions() (apiextensions.CustomResourceDefinitionInterface, error) {
	client, err := apiextensions.NewForConfig(s.Config.GenericConfig.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	return client.CustomResourceDefinitions(), nil
}

// definition returns a definition of the system space.
func (s *Servers) definition(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	client, err := s.systemDefinitions()
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// release takes the finalizer from a definition.
func (s *Servers) release(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) (bool, error) {
	client, err := s.systemDefinitions()
	if err != nil {
		return false, err
	}
	definition.Finalizers = slices.DeleteFunc(definition.Finalizers, func(f string) bool { return f == tenant.PublishedDefinitionFinalizer })
	_, err = client.Update(ctx, definition, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil
	default:
		return err == nil, err
	}
}
