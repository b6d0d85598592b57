package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

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
	config, err := clientcmd.RESTConfigFromKubeConfig(current)
	if err != nil || config.Host != w.endpoint || !bytes.Equal(config.CAData, keys.ServerCA.PEM()) || !isPlain(current) ||
		!keys.IsClientCertificate(config.CertData, config.KeyData, adminLeft, tenant.System, adminUser, adminGroup) {
		if current, err = kubeconfig.New(keys, w.endpoint, kubeconfig.User{
			Tenant: tenant.System, Name: adminUser, Groups: []string{adminGroup}, Validity: adminValidity,
		}); err != nil {
			return nil, fmt.Errorf("making the kubeconfig of the administrator: %w", err)
		}
		if config, err = clientcmd.RESTConfigFromKubeConfig(current); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig of the administrator: %w", err)
		}
	}
	observeExpiry(w.cp, adminUser, config.CertData)
	return current, nil
}

// isPlain reports whether a kubeconfig is of one user, who logs in by a certificate in it, and
// of one cluster. Whoever can write the Secret could add a command that its readers then run.
func isPlain(kubeconfig []byte) bool {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil || len(config.Clusters) != 1 || len(config.AuthInfos) != 1 || len(config.Contexts) != 1 {
		return false
	}
	for _, user := range config.AuthInfos {
		plain := api.AuthInfo{ClientCertificateData: user.ClientCertificateData, ClientKeyData: user.ClientKeyData}
		if plain.Extensions = user.Extensions; !apiequality.Semantic.DeepEqual(plain, *user) {
			return false
		}
	}
	for _, cluster := range config.Clusters {
		plain := api.Cluster{Server: cluster.Server, CertificateAuthorityData: cluster.CertificateAuthorityData, Extensions: cluster.Extensions}
		if !apiequality.Semantic.DeepEqual(plain, *cluster) {
			return false
		}
	}
	return true
}
