package quota

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Store reads and writes quotas where they are stored: without a request, and past
// admission, where a tenant's own webhooks and policies could change what is written.
// Its quotas are those of the flattened view.
//
// It answers that it is not ready until the storages exist: what is written by them is
// charged to the ledger, which exists before them and uses the store.
type Store struct {
	storages atomic.Pointer[storages]
}

// storages are those of the resource resourcequotas and its status.
type storages struct {
	quotas rest.Getter
	status rest.Updater
}

// Use makes the store work, given the storages of the core group by path.
func (s *Store) Use(paths map[string]rest.Storage) error {
	quotas, ok := paths["resourcequotas"].(rest.Getter)
	if !ok {
		return errors.New("the API server has no resource resourcequotas, without which no tenant can be held to its quota")
	}
	status, ok := paths["resourcequotas/status"].(rest.Updater)
	if !ok {
		return errors.New("resource resourcequotas/status cannot be updated")
	}
	s.storages.Store(&storages{quotas: quotas, status: status})
	return nil
}

var errNotReady = apierrors.NewServiceUnavailable("quotas cannot be read yet")

// at returns the storages and the context to call them with.
func (s *Store) at(ctx context.Context, key flatName) (*storages, context.Context, error) {
	storages := s.storages.Load()
	if storages == nil {
		return nil, nil, errNotReady
	}
	n, namespace := key.namespace.Split()
	ctx = request.WithNamespace(tenant.WithSpace(request.WithUser(ctx, nil), n), namespace)
	// What protects published quotas asks which part of them a request is about.
	return storages, request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: "update", APIVersion: "v1", Resource: "resourcequotas", Subresource: "status",
		Namespace: namespace, Name: key.name,
	}), nil
}

// Get reads a quota from etcd. It returns nil if there is none.
func (s *Store) Get(ctx context.Context, key flatName) (*corev1.ResourceQuota, error) {
	storages, ctx, err := s.at(ctx, key)
	if err != nil {
		return nil, err
	}
	obj, err := storages.quotas.Get(ctx, key.name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading quota %s: %w", key, err)
	}
	return flatQuota(key, obj)
}

// Update changes the status of a quota, in one step: change is called with the quota
// as it is in etcd, again if that changes meanwhile. If change fails, nothing is
// written.
func (s *Store) Update(ctx context.Context, key flatName, change func(*corev1.ResourceQuota) error) (*corev1.ResourceQuota, error) {
	storages, ctx, err := s.at(ctx, key)
	if err != nil {
		return nil, err
	}
	obj, _, err := storages.status.Update(ctx, key.name, statusChange(key, change), rest.ValidateAllObjectFunc,
		rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	return flatQuota(key, obj)
}

// statusChange returns a change as the storage takes it.
func statusChange(key flatName, change func(*corev1.ResourceQuota) error) rest.UpdatedObjectInfo {
	return rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, stored runtime.Object) (runtime.Object, error) {
		updated := stored.DeepCopyObject().(*core.ResourceQuota)
		quota, err := flatQuota(key, updated)
		if err != nil {
			return nil, err
		}
		if err := change(quota); err != nil {
			return nil, err
		}
		return updated, corev1conversion.Convert_v1_ResourceQuotaStatus_To_core_ResourceQuotaStatus(&quota.Status, &updated.Status, nil)
	})
}

// flatQuota returns a stored quota as the informers show it.
func flatQuota(key flatName, obj runtime.Object) (*corev1.ResourceQuota, error) {
	stored, ok := obj.(*core.ResourceQuota)
	if !ok {
		return nil, fmt.Errorf("unexpected object %T", obj)
	}
	quota := &corev1.ResourceQuota{}
	if err := corev1conversion.Convert_core_ResourceQuota_To_v1_ResourceQuota(stored, quota, nil); err != nil {
		return nil, fmt.Errorf("converting quota %s: %w", key, err)
	}
	quota.Namespace = key.namespace.String()
	return quota, nil
}
