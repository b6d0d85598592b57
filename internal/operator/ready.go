package operator

import (
	"context"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// readTimeout is how long a check of readiness may take, which is less than the kubelet
// waits for it (config/operator): the host sends and the operator decodes all Tenants meanwhile.
const readTimeout = 4500 * time.Millisecond

// readable is ready while the Tenants, and the ControlPlanes of all namespaces, can be read. One
// that cannot be decoded keeps the cache from all Tenants, or all of its namespace, and a cache
// that was filled before does not tell.
func readable(c client.Reader, namespaces []string) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), readTimeout)
		defer cancel()
		fromCache := client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}
		if err := c.List(ctx, &v1alpha1.TenantList{}, &fromCache); err != nil {
			return fmt.Errorf("the Tenants of the host cannot be read, and are not reconciled: %w", err)
		}
		for _, namespace := range namespaces {
			fromCache.Namespace = namespace
			if err := c.List(ctx, &v1alpha1.ControlPlaneList{}, &fromCache); err != nil {
				return fmt.Errorf("the ControlPlanes of namespace %q cannot be read, and are not reconciled: %w", namespace, err)
			}
		}
		return nil
	}
}
