package storage

import (
	"errors"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// withoutSpace translates the error of etcd that it has reached its space quota. Clients do
// not retry a 507 by themselves, and controllers retry it later.
func withoutSpace(err error) error {
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusInsufficientStorage,
		Reason: "InsufficientStorage",
		Message: "the storage of this server has reached its space quota: nothing can be created or changed until objects " +
			"are deleted, or the platform's administrator raises --etcd-quota-backend-bytes of etcd",
	}}
}
