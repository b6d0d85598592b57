package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	kubeconfigKey = "kubeconfig"

	adminUser, adminGroup = "admin", "system:masters"
	// adminValidity is for how long the administrator's certificate is good, and adminLeft
	// what it has left when it is renewed.
	adminValidity = 60 * 24 * time.Hour
	adminLeft     = 40 * 24 * time.Hour
)

// ensureAdmin makes the Secret with the kubeconfig of the system administrator, as soon as
// there is an address to put into it.
func (r *Reconciler) ensureAdmin(ctx context.Context, w *work) error {
	if w.endpoint == "" {
		return nil
	}
	current := &corev1.Secret{}
	if _, err := r.read(ctx, w.cp, "Secret", adminName(w.cp), current); err != nil {
		return err
	}
	config, err := w.admin(current.Data[kubeconfigKey])
	if err != nil {
		return err
	}
	return r.applySecret(ctx, w.cp, adminName(w.cp), map[string][]byte{kubeconfigKey: config})
}

// admin returns a kubeconfig: the given one for as long as it is good.
func (w *work) admin(current []byte) ([]byte, error) {
	keys := &pki.PKI{ServerCA: w.authorities.server, ClientCA: w.authorities.system}
	config, notAfter, err := kubeconfig.Renew(current, keys, w.endpoint, kubeconfig.User{
		Tenant: tenant.System, Name: adminUser, Groups: []string{adminGroup}, Validity: adminValidity,
	}, adminLeft)
	if err != nil {
		return nil, fmt.Errorf("making the kubeconfig of the administrator: %w", err)
	}
	expires(w.cp, adminUser, notAfter)
	return config, nil
}
