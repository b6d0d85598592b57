package storage

import (
	"context"
	"fmt"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// takeOver returns the result of an update of a default object that a space cannot change
// but shadow: the space's own object, if the update is meant to create it, or an error. The
// caller stores it as a new object.
//
// Server-side apply describes all of an object, so it is applied to an object that does not
// exist. Other updates have to declare in the object that it is the space's own.
func (s *Space) takeOver(ctx context.Context, n tenant.Name, key string, w *cachememory.Write, shown runtime.Object,
	tryUpdate storage.UpdateFunc) (runtime.Object, *uint64, error) {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || info.Subresource != "" || info.Verb != "patch" && info.Verb != "update" { // a deletion may be an update, too
		return nil, nil, s.refuse(key)
	}
	obj, ttl, err := s.guarded(ctx, n, w, tryUpdate)(s.newFunc(), storage.ResponseMeta{})
	if apierrors.IsNotFound(err) { // not an apply
		declared := func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return s.declared(ctx, key, shown.DeepCopyObject(), tryUpdate)
		}
		obj, ttl, err = s.guarded(ctx, n, w, declared)(s.newFunc(), storage.ResponseMeta{})
	}
	if apierrors.IsInvalid(err) { // the apply has a part of the object, for the default one
		err = apierrors.NewForbidden(s.resource, path.Base(key), fmt.Errorf("%w (this one: %w)", s.defaults.Refusal, err))
	}
	if err != nil {
		return nil, nil, err
	}
	if accessor, err := meta.Accessor(obj); err != nil || accessor.GetName() != path.Base(key) {
		return nil, nil, s.refuse(key) // no client does this
	}
	return obj, ttl, nil
}

// declared returns the result of an update of a default object, as a new one.
func (s *Space) declared(ctx context.Context, key string, draft runtime.Object, tryUpdate storage.UpdateFunc) (runtime.Object, *uint64, error) {
	version, err := s.Versioner().ObjectResourceVersion(draft)
	if err != nil {
		return nil, nil, err
	}
	if err := s.defaults.Draft(draft); err != nil {
		return nil, nil, err
	}
	obj, ttl, err := tryUpdate(draft, storage.ResponseMeta{ResourceVersion: version})
	if err != nil {
		return nil, nil, err
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, nil, err
	}
	accessor.SetUID(uuid.NewUUID())
	accessor.SetCreationTimestamp(metav1.NewTime(time.Now()))
	accessor.SetGeneration(1)
	override, err := s.defaults.Override(ctx, obj)
	if err == nil && !override {
		err = s.refuse(key)
	}
	return obj, ttl, err
}
