package kubeconfig

import (
	"bytes"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/yamltext"
)

// Certificate is that of a client.
type Certificate struct {
	// Cert and Key are PEM.
	Cert, Key []byte
	// NotAfter is when it expires.
	NotAfter time.Time
}

// RenewCertificate returns a certificate that is as keys issue it for u: the current one for
// as long as it is that and lasts for longer than left. Of the current one, NotAfter is not
// read.
func RenewCertificate(current Certificate, keys *pki.PKI, u User, left time.Duration) (Certificate, error) {
	var err error
	if !keys.IsClientCertificate(current.Cert, current.Key, left, u.Tenant, u.Name, u.Groups...) {
		if current.Cert, current.Key, err = keys.ClientCertificate(u.Validity, u.Tenant, u.Name, u.Groups...); err != nil {
			return Certificate{}, err
		}
	}
	certificates, err := cert.ParseCertsPEM(current.Cert)
	if err != nil {
		return Certificate{}, fmt.Errorf("reading the certificate of %q: %w", u.Name, err)
	}
	current.NotAfter = certificates[0].NotAfter
	return current, nil
}

// Renew returns a kubeconfig that is as New makes it, and when its certificate expires: the
// current one for as long as it is that, and its certificate lasts for longer than left.
func Renew(current []byte, keys *pki.PKI, server string, u User, left time.Duration) ([]byte, time.Time, error) {
	space, err := spaceURL(server, u.Tenant)
	if err != nil {
		return nil, time.Time{}, err
	}
	before := Certificate{}
	// Anybody who can write the Secret could have it expand to anything.
	if yamltext.Check(current) != nil {
		current = nil
	}
	if config, err := clientcmd.RESTConfigFromKubeConfig(current); err == nil && isPlain(current) &&
		config.Host == space && bytes.Equal(config.CAData, keys.ServerCA.PEM()) {
		before = Certificate{Cert: config.CertData, Key: config.KeyData}
	}
	after, err := RenewCertificate(before, keys, u, left)
	if err != nil {
		return nil, time.Time{}, err
	}
	if !bytes.Equal(after.Cert, before.Cert) {
		current, err = write(&api.Cluster{Server: space, CertificateAuthorityData: keys.ServerCA.PEM()}, u.Tenant, u.Name,
			&api.AuthInfo{ClientCertificateData: after.Cert, ClientKeyData: after.Key})
	}
	return current, after.NotAfter, err
}

// isPlain reports whether a kubeconfig is of one user, who logs in by a certificate in it, and
// of one cluster. Anybody who can write the Secret could add a command that its readers then run.
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
