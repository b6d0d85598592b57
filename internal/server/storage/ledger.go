package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Ledger accounts for the usage of the objects of spaces. It is called here, around
// the write itself, because only here is it known for every kind of request whether
// it was written, how often it was tried, and what it has freed.
type Ledger interface {
	// Tracks reports whether objects of a resource in a namespace, which is empty for
	// cluster-scoped ones, have to be accounted for.
	Tracks(ctx context.Context, n tenant.Name, resource schema.GroupResource, namespace string) bool
	// Charge accounts for a change before it is written, or refuses it.
	Charge(ctx context.Context, change Change) (Entry, error)
}

// Change is a change of one object.
type Change struct {
	Tenant   tenant.Name
	Resource schema.GroupResource
	// Old is nil for a new object, New for a deleted one.
	Old, New runtime.Object
	// Size returns how many bytes an object takes in etcd.
	Size func(obj runtime.Object) (int64, error)
}

// Entry is a change that is accounted for and must be settled.
type Entry interface {
	Settle(outcome Outcome)
}

// Outcome is the result of a change.
type Outcome int

const (
	// Written changes are in etcd.
	Written Outcome = iota
	// Dropped changes are not in etcd and never will be.
	Dropped
	// Unknown changes may be in etcd, which did not answer.
	Unknown
)

func outcomeOf(err error) Outcome {
	var failed *storage.StorageError
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return Written
	case errors.As(err, &failed), errors.As(err, &status):
		return Dropped
	default:
		return Unknown
	}
}

// account is the accounting of one write, which may take several attempts.
type account struct {
	space *Space
	n     tenant.Name
	entry Entry
}

// account returns the account of a write, or nil if it needs none.
func (s *Space) account(ctx context.Context, n tenant.Name, key string) *account {
	if s.options.Ledger == nil || !n.IsSpace() || !s.options.Ledger.Tracks(ctx, n, s.resource, s.namespaceOf(key)) {
		return nil
	}
	return &account{space: s, n: n}
}

// charge accounts for an attempt.
func (a *account) charge(ctx context.Context, before, after runtime.Object) (err error) {
	if a == nil {
		return nil
	}
	a.entry, err = a.space.options.Ledger.Charge(ctx, Change{
		Tenant: a.n, Resource: a.space.resource, Old: before, New: after, Size: a.space.size,
	})
	return err
}

// settle ends the last attempt, if there was one.
func (a *account) settle(outcome Outcome) {
	if a != nil && a.entry != nil {
		a.entry.Settle(outcome)
		a.entry = nil
	}
}

// freed accounts for a deletion.
func (a *account) freed(ctx context.Context, deleted runtime.Object, err error) {
	outcome := outcomeOf(err)
	if a == nil || outcome == Dropped {
		return
	}
	if isZero(deleted) {
		outcome = Unknown // it could not be decoded
	}
	// The client may have disconnected. A ledger does not refuse deletions.
	if err := a.charge(context.WithoutCancel(ctx), deleted, nil); err == nil {
		a.settle(outcome)
	}
}

// namespaceOf returns the namespace in an object's key, empty if it has none.
func (s *Space) namespaceOf(key string) string {
	namespace, _, namespaced := strings.Cut(strings.TrimPrefix(key, s.resourcePrefix), "/")
	if !namespaced {
		return ""
	}
	return namespace
}

// update is GuaranteedUpdate of the storage below, with accounting.
func (s *Space) update(ctx context.Context, n tenant.Name, key, cacheKey string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object) error {
	account := s.account(ctx, n, key)
	if account == nil {
		return s.Interface.GuaranteedUpdate(ctx, cacheKey, destination, ignoreNotFound, preconditions, tryUpdate, cached)
	}
	accounted := func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		account.settle(Dropped) // the attempt before this one
		var before runtime.Object
		if res.ResourceVersion != 0 {
			before = input.DeepCopyObject() // updates may change their input
		}
		output, ttl, err := tryUpdate(input, res)
		if err != nil {
			return nil, nil, err
		}
		return output, ttl, account.charge(ctx, before, output)
	}
	err := s.Interface.GuaranteedUpdate(ctx, cacheKey, destination, ignoreNotFound, preconditions, accounted, cached)
	account.settle(outcomeOf(err))
	return err
}

// size returns the number of bytes of obj in etcd, without encryption.
func (s *Space) size(obj runtime.Object) (int64, error) {
	stored := objects.ShallowCopy(obj)
	if err := s.Versioner().PrepareObjectForStorage(stored); err != nil {
		return 0, fmt.Errorf("preparing a %T: %w", obj, err)
	}
	data, err := runtime.Encode(s.codec, stored)
	return int64(len(data)), err
}
