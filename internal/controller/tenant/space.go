package tenant

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// fieldManager owns the fields that this controller writes, in the space and in the
	// status of the Tenant.
	fieldManager = "tenantry-tenant-controller"
	// quotaFieldManager owns the quota in the status.
	quotaFieldManager = "tenantry-quota-status"
)

// Spaces are the clients of all spaces.
type Spaces struct{ *spaceclient.Spaces }

// servedVersions returns in which versions a group is served in the space of n,
// the preferred one first.
func (s Spaces) servedVersions(ctx context.Context, n tenant.Name, group string) ([]string, error) {
	switch group {
	case corev1.GroupName, rbacv1.GroupName:
		return []string{"v1"}, nil
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(s.Config(n.Scope()))
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client of tenant %q: %w", n, err)
	}
	served := &metav1.APIGroup{}
	if err := client.RESTClient().Get().AbsPath("/apis", group).Do(ctx).Into(served); err != nil {
		return nil, fmt.Errorf("discovering the versions of group %q: %w", group, err)
	}
	versions := make([]string, 0, len(served.Versions)+1)
	if served.PreferredVersion.Version != "" {
		versions = append(versions, served.PreferredVersion.Version)
	}
	for _, version := range served.Versions {
		if version.Version != served.PreferredVersion.Version {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}
