package tenant

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

type fakeCounter struct {
	left map[string]int64
	err  error
}

func (c fakeCounter) Count(context.Context, tenant.Name) (map[string]int64, error) {
	return c.left, c.err
}

func TestVerifyEmpty(t *testing.T) {
	deleted := newTenant("a", func(t *v1alpha1.Tenant) { t.DeletionTimestamp = &metav1.Time{} })
	for name, tc := range map[string]struct {
		tenant  *v1alpha1.Tenant
		counter fakeCounter
		is      func(error) bool
		causes  []metav1.StatusCause
	}{
		"empty":       {tenant: deleted},
		"not deleted": {tenant: newTenant("a"), is: apierrors.IsConflict},
		"unknown":     {tenant: deleted, counter: fakeCounter{err: errors.New("etcd is away")}, is: apierrors.IsInternalError},
		"not empty": {
			tenant:  deleted,
			counter: fakeCounter{left: map[string]int64{"pods": 2, "deployments.apps": 1}},
			is:      apierrors.IsConflict,
			causes: []metav1.StatusCause{
				{Type: v1alpha1.CauseKeysLeft, Field: "deployments.apps", Message: "1"},
				{Type: v1alpha1.CauseKeysLeft, Field: "pods", Message: "2"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &FinalizeREST{counter: tc.counter}
			err := r.verifyEmpty(context.Background(), tc.tenant)
			if tc.is == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !tc.is(err) {
				t.Fatalf("unexpected error %v", err)
			}
			var status *apierrors.StatusError
			if !errors.As(err, &status) {
				t.Fatalf("error %v has no status", err)
			}
			if tc.causes == nil {
				return
			}
			if diff := cmp.Diff(tc.causes, status.ErrStatus.Details.Causes); diff != "" {
				t.Error(diff)
			}
		})
	}
}
