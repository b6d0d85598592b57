package kubeconfig

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/internal/pki"
)

// Renew returns a kubeconfig that is as New makes it, and its certificate: the current one
// for as long as it is that, and its certificate lasts for longer than left.
func Renew(current []byte, keys *pki.PKI, server string, u User, left time.Duration) ([]byte, *x509.Certificate, error) {
	space, err := SpaceURL(server, u.Tenant)
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(current)
	if err != nil || config.Host != space || !bytes.Equal(config.CAData, keys.ServerCA.PEM()) || !isPlain(current) ||
		!keys.IsClientCertificate(config.CertData, config.KeyData, left, u.Tenant, u.Name, u.Groups...) {
		if current, err = New(keys, server, u); err != nil {
			return nil, nil, err
		}
		if config, err = clientcmd.RESTConfigFromKubeConfig(current); err != nil {
			return nil, nil, fmt.Errorf("reading what was encoded: %w", err)
		}
	}
	certificates, err := cert.ParseCertsPEM(config.CertData)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate of %q: %w", u.Name, err)
	}
	return current, certificates[0], nil
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
