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

	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/tenant"
)

// deletions is how many requests of one space are under way at once.
const deletions = 8

var namespaces = schema.GroupResource{Resource: "namespaces"}

// empty takes the next step in emptying a space. It is done if there may be
// another to take at once. Namespaces go first, with what is in them; then what
// is cluster-scoped.
func (r *Reconciler) empty(ctx context.Context, n tenant.Name, left remaining) (outcome, error) {
	if left[namespaces] > 0 {
		return r.emptyNamespaces(ctx, n, left)
	}
	var waiting []StoredObject
	found := 0
	for _, resource := range nextStage(left) {
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
		return outcome{waiting: endOf(waiting)}, nil
	case found == 0:
		return outcome{waiting: "objects that cannot be listed: no API serves them"}, nil
	default:
		return outcome{}, nil
	}
}

// nextStage returns which of the resources left are deleted next. RBAC goes at
// the very end, bindings before roles, so that owners of finalizers keep their
// rights until they are done.
func nextStage(left remaining) []schema.GroupResource {
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

// emptyNamespaces deletes the namespaces and what is in them. Upstream's
// namespace controller would do the same, but asks in every namespace for every
// resource there is; here etcd has said which there are.
func (r *Reconciler) emptyNamespaces(ctx context.Context, n tenant.Name, left remaining) (outcome, error) {
	all := &corev1.NamespaceList{}
	if err := r.Spaces.In(n.Scope()).List(ctx, all); err != nil {
		return outcome{}, fmt.Errorf("listing namespaces: %w", err)
	}
	list := all.Items
	if err := r.deleteNamespaces(ctx, n, list); err != nil {
		return outcome{}, err
	}
	content, unknown, err := r.namespacedContent(ctx, n, left)
	if err != nil {
		return outcome{}, err
	}
	if len(content) > 0 {
		held, err := r.deleteObjects(ctx, n, content)
		if err != nil || len(held) == 0 {
			return outcome{}, err
		}
		return outcome{waiting: endOf(held)}, nil
	}
	if unknown {
		return outcome{waiting: "namespaces " + progressOf(list)}, nil
	}
	return r.finalizeNamespaces(ctx, n, list)
}

func (r *Reconciler) deleteNamespaces(ctx context.Context, n tenant.Name, list []corev1.Namespace) error {
	return forEach(ctx, list, func(ctx context.Context, namespace corev1.Namespace) error {
		if namespace.DeletionTimestamp != nil {
			return nil
		}
		return wrap(r.Spaces.In(n.Scope()).Delete(ctx, &namespace), "deleting namespace %q", namespace.Name)
	})
}

// forEach calls do with each object of a space, several at a time. An object that do does
// not find, or finds changed, is gone or going.
func forEach[T any](ctx context.Context, objects []T, do func(context.Context, T) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(deletions)
	for _, object := range objects {
		group.Go(func() error {
			if err := do(groupCtx, object); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return err
			}
			return nil
		})
	}
	return group.Wait()
}

// namespacedContent returns the objects in namespaces that are deleted next. It
// reports unknown if etcd holds keys that no API shows, which may be in a
// namespace or not.
func (r *Reconciler) namespacedContent(ctx context.Context, n tenant.Name, left remaining) (content []StoredObject, unknown bool, err error) {
	rest := maps.Clone(left)
	delete(rest, namespaces)
	for {
		stage := nextStage(rest)
		if len(stage) == 0 || len(content) > 0 {
			return content, unknown, nil
		}
		for _, resource := range stage {
			delete(rest, resource)
			objects, err := r.Spaces.ListObjects(ctx, n, resource)
			if err != nil {
				return nil, false, err
			}
			unknown = unknown || len(objects) == 0
			for _, object := range objects {
				if object.Namespace != "" {
					content = append(content, object)
				}
			}
		}
	}
}

// finalizeNamespaces lets namespaces go that are empty. Other finalizers than
// that of Kubernetes itself are honoured.
func (r *Reconciler) finalizeNamespaces(ctx context.Context, n tenant.Name, list []corev1.Namespace) (outcome, error) {
	var empty []*corev1.Namespace
	var held []corev1.Namespace
	for i := range list {
		namespace := &list[i]
		if namespace.DeletionTimestamp == nil {
			continue // just deleted, its new version is read in the next round
		}
		own := slices.Contains(namespace.Spec.Finalizers, corev1.FinalizerKubernetes)
		if !own || len(namespace.Spec.Finalizers) > 1 || len(namespace.Finalizers) > 0 {
			held = append(held, *namespace)
		}
		if !own {
			continue
		}
		namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers,
			func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
		empty = append(empty, namespace)
	}
	err := forEach(ctx, empty, func(ctx context.Context, namespace *corev1.Namespace) error {
		return wrap(r.Spaces.In(n.Scope()).SubResource("finalize").Update(ctx, namespace), "finalizing namespace %q", namespace.Name)
	})
	if err != nil || len(held) == 0 {
		return outcome{}, err
	}
	return outcome{waiting: "namespaces " + progressOf(held)}, nil
}

func progressOf(list []corev1.Namespace) string {
	progress := make([]string, len(list))
	for i := range list {
		progress[i] = namespaceProgress(&list[i])
	}
	return conditions.Enumerate(progress)
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

// endOf says what objects wait for that deleteObjects has returned: their finalizers, or, of pods, the end of
// their containers.
func endOf(held []StoredObject) string {
	var finalizers, ending []string
	for _, object := range held {
		if len(object.Finalizers) > 0 {
			finalizers = append(finalizers, object.String())
		} else {
			ending = append(ending, object.String())
		}
	}
	var parts []string
	if len(finalizers) > 0 {
		parts = append(parts, "the finalizers of "+conditions.Enumerate(finalizers))
	}
	if len(ending) > 0 {
		parts = append(parts, conditions.Enumerate(ending)+" to end")
	}
	return strings.Join(parts, ", and ")
}

// deleteObjects deletes objects and returns those that their finalizers, or the
// time that they are given to end, hold.
func (r *Reconciler) deleteObjects(ctx context.Context, n tenant.Name, objects []StoredObject) ([]StoredObject, error) {
	var held []StoredObject
	for _, object := range objects {
		if len(object.Finalizers) > 0 || object.Terminating {
			held = append(held, object)
		}
	}
	return held, forEach(ctx, objects, func(ctx context.Context, object StoredObject) error {
		if object.Terminating {
			return nil
		}
		return wrap(r.Spaces.DeleteObject(ctx, n, object), "deleting %s", object)
	})
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
