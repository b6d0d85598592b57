package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// deletionPoll is how often a space that is being emptied is looked at while
// nothing that the controller watches changes in it, such as a finalizer.
const deletionPoll = 2 * time.Second

// delete empties a space and then lets its Tenant go. New objects are refused by
// the server from the moment the Tenant has a deletion timestamp.
func (r *Reconciler) delete(ctx context.Context, t *v1alpha1.Tenant) (reconcile.Result, error) {
	if !slices.Contains(t.Finalizers, v1alpha1.SpaceFinalizer) {
		return reconcile.Result{}, nil
	}
	left, err := r.empty(ctx, tenant.Name(t.Name))
	if err != nil {
		return reconcile.Result{}, errors.Join(err, r.commit(ctx, t, deletingStatus(err.Error()), terminatingStatus()))
	}
	if len(left) > 0 {
		if err := r.commit(ctx, t, deletingStatus("waiting for "+describe(left)), terminatingStatus()); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{RequeueAfter: deletionPoll}, nil
	}
	return reconcile.Result{}, r.finalize(ctx, t)
}

// finalize asks the server to verify that etcd holds no key of the tenant and
// to remove the finalizer.
func (r *Reconciler) finalize(ctx context.Context, t *v1alpha1.Tenant) error {
	finalized := t.DeepCopy()
	finalized.Finalizers = slices.DeleteFunc(finalized.Finalizers, func(f string) bool { return f == v1alpha1.SpaceFinalizer })
	err := r.Client.SubResource("finalize").Update(ctx, finalized)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("finalizing tenant %q: %w", t.Name, err)
		return errors.Join(err, r.commit(ctx, t, deletingStatus(err.Error()), terminatingStatus()))
	}
	log.FromContext(ctx).Info("Tenant deleted, its space verified empty in etcd", "keys", 0)
	r.Recorder.Eventf(t, nil, corev1.EventTypeNormal, "SpaceDeleted", "Finalize", "the space was verified empty: 0 keys left in etcd")
	return nil
}

// empty takes the next step in emptying a space and returns what is left, by
// resource. Namespaces go first, with the workloads in them, then what is
// cluster-scoped, RBAC at the very end, so that owners of finalizers keep their
// rights until they are done.
func (r *Reconciler) empty(ctx context.Context, n tenant.Name) (map[string]int, error) {
	objects, err := r.Spaces.Metadata(n)
	if err != nil {
		return nil, err
	}
	left, err := deleteEach(ctx, objects, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err != nil || left > 0 {
		return map[string]int{"namespaces": left}, err
	}
	server, err := r.Spaces.Discovery(n)
	if err != nil {
		return nil, err
	}
	resources, err := clusterScoped(server)
	if err != nil {
		return nil, fmt.Errorf("discovering what the space of tenant %q holds: %w", n, err)
	}
	for _, stage := range stages(resources) {
		counts := make(map[string]int)
		for _, resource := range stage {
			left, err := deleteEach(ctx, objects, resource)
			if err != nil {
				return nil, err
			}
			if left > 0 {
				counts[resource.GroupResource().String()] = left
			}
		}
		if len(counts) > 0 {
			return counts, nil
		}
	}
	return nil, nil
}

// deleteEach deletes the objects of one resource and returns how many are left
// because of their finalizers or of other controllers.
func deleteEach(ctx context.Context, objects metadata.Interface, resource schema.GroupVersionResource) (int, error) {
	list, err := objects.Resource(resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	left := 0
	background := metav1.DeletePropagationBackground
	for i := range list.Items {
		item := &list.Items[i]
		if item.UID == "" {
			continue // a default that the server shows and does not store
		}
		gone := false
		if item.DeletionTimestamp == nil {
			err := objects.Resource(resource).Delete(ctx, item.Name, metav1.DeleteOptions{PropagationPolicy: &background})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return 0, fmt.Errorf("deleting %s %q: %w", resource.GroupResource(), item.Name, err)
			}
			gone = len(item.Finalizers) == 0 && resource.Resource != "namespaces"
		}
		if !gone {
			left++
		}
	}
	return left, nil
}

// clusterScoped returns the cluster-scoped resources that can be listed and
// deleted, one version of each.
func clusterScoped(server discovery.DiscoveryInterface) ([]schema.GroupVersionResource, error) {
	lists, err := discovery.ServerPreferredResources(server)
	if err != nil && len(lists) == 0 {
		return nil, err
	}
	var resources []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if !resource.Namespaced && slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "delete") {
				resources = append(resources, gv.WithResource(resource.Name))
			}
		}
	}
	return resources, nil
}

// stages orders resources: custom resource definitions and everything else
// before RBAC, and bindings before the roles they refer to.
func stages(resources []schema.GroupVersionResource) [][]schema.GroupVersionResource {
	rank := func(resource schema.GroupVersionResource) int {
		switch {
		case resource.Group != rbacv1.GroupName:
			return 0
		case strings.HasSuffix(resource.Resource, "bindings"):
			return 1
		default:
			return 2
		}
	}
	result := make([][]schema.GroupVersionResource, 3)
	for _, resource := range resources {
		result[rank(resource)] = append(result[rank(resource)], resource)
	}
	for _, stage := range result {
		slices.SortFunc(stage, func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) })
	}
	return result
}

func describe(left map[string]int) string {
	parts := make([]string, 0, len(left))
	for _, resource := range slices.Sorted(maps.Keys(left)) {
		parts = append(parts, fmt.Sprintf("%d %s", left[resource], resource))
	}
	return strings.Join(parts, ", ")
}

func deletingStatus(message string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionDeleting, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTerminating, Message: message,
	}
}

func terminatingStatus() metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonTerminating,
		Message: "the tenant is being deleted",
	}
}
