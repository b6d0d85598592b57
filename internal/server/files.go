package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/pkg/auth/authorizer/abac"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/serverconfig"
)

// flagFiles are the files that flags name, with what can be said of them before anything is started.
type flagFiles struct{ errs []error }

// add notes what is wrong with a file, which may have no name.
func (f *flagFiles) add(flag, path string, read func(path string) error) {
	if path == "" {
		return
	}
	err := read(path)
	if of, is := errors.AsType[*fs.PathError](err); is && of.Path == path { // which has the path once more
		err = of.Err
	}
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("--%s: %s: %w", flag, path, err))
	}
}

// pair notes what is wrong with the files of a certificate and its key.
func (f *flagFiles) pair(certFlag, certFile, keyFlag, keyFile string) {
	f.add(certFlag, certFile, isBundle)
	f.add(keyFlag, keyFile, isPrivateKey)
}

// checkFiles returns an error that names the flag and the file for what can be said so early of files that flags
// name: upstream says that there is no such file, or no configuration, and not where it has looked, and some of its
// errors end the process.
func (o *Options) checkFiles() error {
	var f flagFiles
	kube := o.Kube
	if a := kube.Authentication; a != nil {
		f.add("authentication-config", a.AuthenticationConfigFile, parses(serverconfig.Decode[*apiserver.AuthenticationConfiguration]))
		if a.TokenFile != nil {
			f.add("token-auth-file", a.TokenFile.TokenFile, readable)
		}
		if a.WebHook != nil {
			f.add("authentication-token-webhook-config-file", a.WebHook.ConfigFile, isKubeconfig)
		}
		if a.ClientCert != nil {
			f.add("client-ca-file", a.ClientCert.ClientCA, isBundle)
		}
		if a.RequestHeader != nil {
			f.add("requestheader-client-ca-file", a.RequestHeader.ClientCAFile, isBundle)
		}
		if a.OIDC != nil {
			f.add("oidc-ca-file", a.OIDC.CAFile, isBundle)
		}
		if a.ServiceAccounts != nil {
			for _, file := range a.ServiceAccounts.KeyFiles {
				f.add("service-account-key-file", file, isPublicKeys)
			}
		}
	}
	f.add("service-account-signing-key-file", kube.ServiceAccountSigningKeyFile, isPrivateKey)
	f.add("authorization-config", kube.Authorization.AuthorizationConfigurationFile, parses(serverconfig.Decode[*apiserver.AuthorizationConfiguration]))
	f.add("authorization-policy-file", kube.Authorization.PolicyFile, isABAC)
	f.add("authorization-webhook-config-file", kube.Authorization.WebhookConfigFile, isKubeconfig)
	f.add("admission-control-config-file", kube.Admission.GenericAdmission.ConfigFile, isAdmission)
	f.add("audit-policy-file", kube.Audit.PolicyFile, holds(serverconfig.CheckAuditPolicy))
	f.add("audit-log-path", kube.Audit.LogOptions.Path, isLog)
	f.add("audit-webhook-config-file", kube.Audit.WebhookOptions.ConfigFile, isKubeconfig)
	f.add("encryption-provider-config", kube.Etcd.EncryptionProviderConfigFilepath, parses(serverconfig.Decode[*apiserver.EncryptionConfiguration]))
	f.add("egress-selector-config-file", kube.EgressSelector.ConfigFile, parses(serverconfig.Decode[*apiserver.EgressSelectorConfiguration]))
	f.add("tracing-config-file", kube.Traces.ConfigFile, parses(serverconfig.Decode[*apiserver.TracingConfiguration]))

	transport, serving, kubelet := kube.Etcd.StorageConfig.Transport, kube.SecureServing.ServerCert.CertKey, kube.KubeletConfig.TLSClientConfig
	f.add("etcd-cafile", transport.TrustedCAFile, isBundle)
	f.pair("etcd-certfile", transport.CertFile, "etcd-keyfile", transport.KeyFile)
	f.pair("tls-cert-file", serving.CertFile, "tls-private-key-file", serving.KeyFile)
	for _, named := range kube.SecureServing.SNICertKeys {
		f.pair("tls-sni-cert-key", named.CertFile, "tls-sni-cert-key", named.KeyFile)
	}
	f.pair("proxy-client-cert-file", kube.ProxyClientCertFile, "proxy-client-key-file", kube.ProxyClientKeyFile)
	f.add("kubelet-certificate-authority", kubelet.CAFile, isBundle)
	f.pair("kubelet-client-certificate", kubelet.CertFile, "kubelet-client-key", kubelet.KeyFile)
	f.add("peer-ca-file", kube.PeerCAFile, isBundle)
	f.add("allow-metric-labels-manifest", kube.Metrics.AllowListMappingManifest, holds(func(content []byte) error {
		return yaml.Unmarshal(content, &map[string]string{})
	}))

	f.add("basic-auth-file", o.Authentication.BasicAuthFile, readable)
	f.add("keystone-config", o.Authentication.KeystoneConfig, readable)
	f.add("system-client-ca-file", o.Authentication.SystemClientCAFile, isBundle)
	f.add("root-ca-file", o.RootCAFile, isBundle)
	f.pair("cluster-signing-cert-file", o.Signing.CertFile, "cluster-signing-key-file", o.Signing.KeyFile)
	f.add("search-ca-file", o.SearchServers.CAFile, isBundle)
	return errors.Join(f.errs...)
}

func readable(path string) error {
	_, err := os.ReadFile(path)
	return err
}

// holds returns what reads a file and checks what is in it.
func holds(check func(content []byte) error) func(path string) error {
	return func(path string) error {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(content)) == 0 {
			return errors.New("it is empty")
		}
		return check(content)
	}
}

// parses returns what reads a file and parses it.
func parses[T any](parse func(content []byte) (T, error)) func(path string) error {
	return holds(func(content []byte) error {
		_, err := parse(content)
		return err
	})
}

var isBundle, isPrivateKey, isPublicKeys = parses(cert.ParseCertsPEM), parses(keyutil.ParsePrivateKeyPEM), parses(keyutil.ParsePublicKeysPEM)

// isABAC reads lines of ABAC. A file without any is right.
func isABAC(path string) error {
	if err := readable(path); err != nil {
		return err
	}
	_, err := abac.NewFromFile(path)
	return err
}

// isLog returns an error unless something can be added to a file. It makes it, as upstream does.
func isLog(path string) error {
	if path == "-" { // standard output
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return log.Close()
}

// isAdmission returns an error unless a file configures plugins that there are, by files that can be read: upstream
// ends the process if one cannot.
func isAdmission(path string) error {
	return holds(func(content []byte) error {
		c, err := serverconfig.Decode[*apiserver.AdmissionConfiguration](content)
		if err != nil {
			return err
		}
		return serverconfig.CheckPlugins(c, serverconfig.AllPlugins(), func(plugin *apiserver.AdmissionPluginConfiguration) error {
			named := plugin.Path
			if named == "" {
				return nil
			}
			if !filepath.IsAbs(named) {
				named = filepath.Join(filepath.Dir(path), named)
			}
			if err := readable(named); err != nil {
				return fmt.Errorf("path: of %s: %w", plugin.Name, err)
			}
			return nil
		})
	})(path)
}

// isKubeconfig returns an error unless a file says where a webhook is.
func isKubeconfig(path string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil { // relative to the file, as upstream reads it
		return err
	}
	if _, err = clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig(); clientcmd.IsEmptyConfig(err) {
		return errors.New("it has no cluster, user and context: it is to be a kubeconfig that says where the webhook is")
	}
	return err
}
