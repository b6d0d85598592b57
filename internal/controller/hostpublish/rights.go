package hostpublish

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// revokeElsewhere takes the publisher's rights in all namespaces but one, where it no longer writes.
func (s *Space) revokeElsewhere(ctx context.Context, namespace string) error {
	for _, list := range []client.ObjectList{&rbacv1.RoleBindingList{}, &rbacv1.RoleList{}} {
		if err := s.Admin.List(ctx, list, client.MatchingFields{metav1.ObjectNameField: PublisherUser}); err != nil {
			return fmt.Errorf("listing the rights of user %q: %T: %w", PublisherUser, list, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(client.Object)
			if object.GetName() != PublisherUser || object.GetNamespace() == namespace {
				return nil
			}
			return s.revokeOne(ctx, object)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// revoke takes all rights of the publisher, which has nothing to write any more.
func (s *Space) revoke(ctx context.Context) error {
	name := metav1.ObjectMeta{Name: PublisherUser}
	for _, object := range []client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: name}, &rbacv1.ClusterRole{ObjectMeta: name}} {
		if err := s.revokeOne(ctx, object); err != nil {
			return err
		}
	}
	return s.revokeElsewhere(ctx, "")
}

func (s *Space) revokeOne(ctx context.Context, object client.Object) error {
	if err := s.Admin.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking the rights of user %q: %T: %w", PublisherUser, object, err)
	}
	return nil
}
