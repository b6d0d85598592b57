package standalone

import (
	"cmp"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server"
)

const (
	// serviceRange has a million addresses: the Services of all spaces share it.
	serviceRange = "10.96.0.0/12"
	// issuer is that of tokens of service accounts.
	issuer = "https://kubernetes.default.svc"
)

// MountedFlags are the flags of a server that Mount sets.
func MountedFlags() []string {
	return []string{
		"tls-cert-file", "tls-private-key-file", "root-ca-file", "client-ca-file", "system-client-ca-file",
		"cluster-signing-cert-file", "cluster-signing-key-file", "service-account-key-file", "service-account-signing-key-file",
		"proxy-client-cert-file", "proxy-client-key-file",
	}
}

// Mount makes a server use the keys in a directory that somebody else keeps, see pki.Load. It
// sets the options of MountedFlags and, where they say nothing, those of the issuer of tokens
// and of the addresses of Services, as "tenantry up" does.
func Mount(dir string, options *server.Options) error {
	keys, err := pki.Load(dir)
	if err != nil {
		return err
	}
	use(keys, options)
	return nil
}

// use makes a server use the keys of a directory.
func use(keys *pki.PKI, options *server.Options) {
	kube := options.Kube
	options.RootCAFile = keys.ServerCA.File
	kube.SecureServing.ServerCert.CertKey.CertFile, kube.SecureServing.ServerCert.CertKey.KeyFile = keys.Serving()
	authenticateBy(keys, options)
	options.Signing.CertFile, options.Signing.KeyFile = keys.ClientCA.File, keys.ClientCA.KeyFile
	kube.ServiceAccountSigningKeyFile = keys.ServiceAccountKey()
	kube.ProxyClientCertFile, kube.ProxyClientKeyFile = keys.FrontProxyClient()
	kube.ServiceClusterIPRanges = cmp.Or(kube.ServiceClusterIPRanges, serviceRange)
}

// authenticateBy lets the users in that a directory has keys for.
func authenticateBy(keys *pki.PKI, options *server.Options) {
	upstream := options.Authentication.Upstream
	if upstream.ServiceAccounts == nil {
		upstream.WithServiceAccounts()
	}
	options.Kube.Authentication = upstream
	if len(upstream.ServiceAccounts.Issuers) == 0 {
		upstream.ServiceAccounts.Issuers = []string{issuer}
	}
	upstream.ServiceAccounts.KeyFiles = keys.ServiceAccountKeys()
	switch {
	case keys.SystemCA != nil:
		upstream.ClientCert.ClientCA = keys.ClientCA.File
		options.Authentication.SystemClientCAFile = keys.SystemCA.File
	case upstream.ClientCert.ClientCA == "":
		upstream.ClientCert.ClientCA = keys.ClientCA.File
	default:
		options.Authentication.SystemClientCAFile = keys.ClientCA.File
	}
}
