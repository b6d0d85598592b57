package rbac

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/kubernetes/pkg/apis/rbac"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestMisspeltAnnotations says that no annotation that was meant to limit a role is
// taken for none. Spaces may have such annotations, which mean nothing there.
func TestMisspeltAnnotations(t *testing.T) {
	role := &upstream.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "support", Annotations: map[string]string{
		tenant.ScopeAnnotation: "Tenants", "tenantry.io/tenants-selector": "region=eu",
	}}}
	for n, refused := range map[tenant.Name]bool{tenant.System: true, "acme": false} {
		ctx := tenant.WithSpace(request.WithUser(context.Background(), &user.DefaultInfo{Groups: []string{user.SystemPrivilegedGroup}}), n)
		err := (&ClusterRoles{}).guard(ctx, role, &upstream.ClusterRole{})
		if refused && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "tenantry.io/tenants-selector means nothing")) || !refused && err != nil {
			t.Errorf("%s: got %v", n, err)
		}
	}
}
