package certificates

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/certificates"
	apivalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates/storage"
)

const resource = "certificatesigningrequests"

// Wrap limits upstream's storages of CertificateSigningRequests, if they are in
// storages.
func Wrap(storages map[string]rest.Storage) error {
	if storages[resource] == nil {
		return nil
	}
	requests, isMain := storages[resource].(*storage.REST)
	status, isStatus := storages[resource+"/status"].(*storage.StatusREST)
	approval, isApproval := storages[resource+"/approval"].(*storage.ApprovalREST)
	if !isMain || !isStatus || !isApproval {
		return fmt.Errorf("unexpected storage of %s: %T, %T, %T", resource,
			storages[resource], storages[resource+"/status"], storages[resource+"/approval"])
	}
	requests.CreateStrategy = creation{requests.CreateStrategy}
	requests.UpdateStrategy = change{requests.UpdateStrategy}
	storages[resource+"/status"] = &statusStorage{status}
	storages[resource+"/approval"] = &approvalStorage{approval}
	return nil
}

// creation is upstream's strategy. It runs after mutating webhooks.
type creation struct{ rest.RESTCreateStrategy }

// Validate implements rest.RESTCreateStrategy.
func (c creation) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if errs := checkRequest(obj.(*certificates.CertificateSigningRequest).Spec.Request); len(errs) > 0 {
		return errs
	}
	return c.RESTCreateStrategy.Validate(ctx, obj)
}

// change is upstream's strategy, by which updates only change the metadata.
type change struct{ rest.RESTUpdateStrategy }

// ValidateUpdate implements rest.RESTUpdateStrategy. Objects that were stored before there
// were limits can be deleted, so their finalizers can be removed.
func (c change) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	after, before := obj.(*certificates.CertificateSigningRequest), old.(*certificates.CertificateSigningRequest)
	errs := checkRequest(after.Spec.Request)
	switch {
	case len(errs) == 0:
		return c.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old)
	case before.DeletionTimestamp == nil:
		return errs
	}
	metadata := field.NewPath("metadata")
	errs = apivalidation.ValidateObjectMeta(&after.ObjectMeta, c.NamespaceScoped(), func(string, bool) []string { return nil }, metadata)
	return append(errs, apivalidation.ValidateObjectMetaUpdate(&after.ObjectMeta, &before.ObjectMeta, metadata)...)
}

// bounded returns an update of a subresource that refuses stored objects beyond the limits.
func bounded(info rest.UpdatedObjectInfo) rest.UpdatedObjectInfo {
	return rest.WrapUpdatedObjectInfo(info, func(_ context.Context, obj, old runtime.Object) (runtime.Object, error) {
		stored := old.(*certificates.CertificateSigningRequest)
		if errs := checkRequest(stored.Spec.Request); len(errs) > 0 {
			return nil, apierrors.NewInvalid(certificates.Kind("CertificateSigningRequest"), stored.Name, errs)
		}
		return obj, nil
	})
}

// statusStorage serves the subresource status.
type statusStorage struct{ *storage.StatusREST }

// Update implements rest.Updater. It serves patches and server-side apply too.
func (s *statusStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.StatusREST.Update(ctx, name, bounded(info), create, update, forceAllowCreate, options)
}

// approvalStorage serves the subresource approval.
type approvalStorage struct{ *storage.ApprovalREST }

// Update implements rest.Updater. It serves patches and server-side apply too.
func (a *approvalStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return a.ApprovalREST.Update(ctx, name, bounded(info), create, update, forceAllowCreate, options)
}

var (
	_ rest.Patcher             = &statusStorage{}
	_ rest.Patcher             = &approvalStorage{}
	_ rest.ResetFieldsStrategy = &statusStorage{}
	_ rest.ResetFieldsStrategy = &approvalStorage{}
)
