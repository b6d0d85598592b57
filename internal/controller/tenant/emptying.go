package tenant

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// deletions is how many requests of one space are under way at once.
	deletions = 8
	// named is how many objects a message names.
	named = 5
)

var namespaces = schema.GroupResource{Resource: "namespaces"}

// empty takes the next step in emptying a space. It is done if there may be
// another to take at once.
func (r *Reconciler) empty(ctx context.Context, n tenant.Name, left remaining) (outcome, error) {
	stage := nextStage(left)
	if slices.Contains(stage, namespaces) {
		return r.emptyNamespaces(ctx, n)
	}
	var waiting []string
	found := 0
	for _, resource := range stage {
		objects, err := r.Spaces.ListObjects(ctx, n, resource)
		if err != nil {
			return outcome{}, err
		}
		found += len(objects)
		held, err := r.deleteObjects(ctx, n, objects)
		if err != nil {
			return outcome{}, err
		}
		waiting = append(waiting, held...)
	}
	switch {
	case len(waiting) > 0:
		return outcome{waiting: "the finalizers of " + enumerate(waiting)}, nil
	case found == 0:
		return outcome{waiting: "objects that cannot be listed: no API serves them"}, nil
	default:
		return outcome{}, nil
	}
}

// nextStage returns which of the resources left are deleted next. Namespaces go
// first, with the workloads in them; then what is cluster-scoped; RBAC goes at
// the very end, bindings before roles, so that owners of finalizers keep their
// rights until they are done.
func nextStage(left remaining) []schema.GroupResource {
	if left[namespaces] > 0 {
		return []schema.GroupResource{namespaces}
	}
	stages := make([][]schema.GroupResource, 3)
	for resource := range left {
		stages[rank(resource)] = append(stages[rank(resource)], resource)
	}
	for _, stage := range stages {
		if len(stage) > 0 {
			slices.SortFunc(stage, compareResources)
			return stage
		}
	}
	return nil
}

func rank(resource schema.GroupResource) int {
	switch {
	case resource.Group != rbacv1.GroupName:
		return 0
	case strings.HasSuffix(resource.Resource, "bindings"):
		return 1
	default:
		return 2
	}
}

// emptyNamespaces deletes the namespaces; upstream's namespace controller
// deletes what is in them.
func (r *Reconciler) emptyNamespaces(ctx context.Context, n tenant.Name) (outcome, error) {
	list, err := r.Spaces.ListNamespaces(ctx, n)
	if err != nil {
		return outcome{}, fmt.Errorf("listing namespaces: %w", err)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(deletions)
	waiting := make([]string, 0, len(list))
	for i := range list {
		waiting = append(waiting, namespaceProgress(&list[i]))
		if list[i].DeletionTimestamp != nil {
			continue
		}
		group.Go(func() error {
			err := r.Spaces.DeleteNamespace(groupCtx, n, list[i].Name)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil // gone, or going
			}
			return wrap(err, "deleting namespace %q", list[i].Name)
		})
	}
	if err := group.Wait(); err != nil || len(list) == 0 {
		return outcome{}, err
	}
	return outcome{waiting: "namespaces " + enumerate(waiting)}, nil
}

// namespaceProgress says what a namespace waits for, if its controller has said
// so.
func namespaceProgress(namespace *corev1.Namespace) string {
	for _, kind := range []corev1.NamespaceConditionType{
		corev1.NamespaceFinalizersRemaining, corev1.NamespaceDeletionContentFailure,
		corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceContentRemaining,
	} {
		for _, c := range namespace.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionTrue {
				return fmt.Sprintf("%s (%s)", namespace.Name, c.Message)
			}
		}
	}
	return namespace.Name
}

// deleteObjects deletes objects and names those that their finalizers hold.
func (r *Reconciler) deleteObjects(ctx context.Context, n tenant.Name, objects []StoredObject) ([]string, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(deletions)
	var held []string
	for _, object := range objects {
		if len(object.Finalizers) > 0 {
			held = append(held, object.String())
		}
		if object.Terminating {
			continue
		}
		group.Go(func() error {
			err := r.Spaces.DeleteObject(groupCtx, n, object)
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil
			}
			return wrap(err, "deleting %s", object)
		})
	}
	return held, group.Wait()
}

// describe counts what is left: "4 namespaces, 2 pods".
func describe(left remaining) string {
	parts := make([]string, 0, len(left))
	for _, resource := range slices.SortedFunc(maps.Keys(left), compareResources) {
		parts = append(parts, fmt.Sprintf("%d %s", left[resource], resource))
	}
	return strings.Join(parts, ", ")
}

func compareResources(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) }

// enumerate joins the first few names.
func enumerate(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}
