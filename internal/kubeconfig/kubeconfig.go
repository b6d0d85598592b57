package kubeconfig

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/tenant"
)

// User says who is to connect.
type User struct {
	Tenant tenant.Name
	Name   string
	Groups []string
	// Validity is for how long; zero is the issuer's default, a year.
	Validity time.Duration
}

// New returns a kubeconfig for u at the server with the given plain URL
// (https://host:port), with a client certificate made for it.
func New(keys *pki.PKI, server string, u User) ([]byte, error) {
	config, _, err := Renew(nil, keys, server, u, 0)
	return config, err
}

// NewExec returns a kubeconfig without a secret, for users of tenant t at the server with
// the given plain URL and authority. "tenantry credential NAME", called with args, logs in.
func NewExec(server string, authority []byte, t tenant.Name, name string, args ...string) ([]byte, error) {
	space, err := spaceURL(server, t)
	if err != nil {
		return nil, err
	}
	return write(&api.Cluster{Server: space, CertificateAuthorityData: authority}, t, name, &api.AuthInfo{Exec: &api.ExecConfig{
		APIVersion:      clientauthentication.SchemeGroupVersion.String(),
		Command:         "tenantry",
		Args:            append([]string{"credential", name}, args...),
		InstallHint:     "The command tenantry logs in here (tenantry credential " + name + "). Put it into a directory of PATH.",
		InteractiveMode: api.IfAvailableExecInteractiveMode,
	}})
}

// AuthorityFile, CertFile and KeyFile are the files that NewMounted names.
const (
	AuthorityFile = "ca.crt"
	CertFile      = "tls.crt"
	KeyFile       = "tls.key"
)

// NewMounted returns a kubeconfig of a user of the system tenant at the server with the given
// plain URL. What it needs lies beside it, in files that clients read again when they change.
func NewMounted(server, user string) ([]byte, error) {
	space, err := spaceURL(server, tenant.System)
	if err != nil {
		return nil, err
	}
	return write(&api.Cluster{Server: space, CertificateAuthority: AuthorityFile}, tenant.System, user,
		&api.AuthInfo{ClientCertificate: CertFile, ClientKey: KeyFile})
}

func write(cluster *api.Cluster, t tenant.Name, user string, credentials *api.AuthInfo) ([]byte, error) {
	context := user + "@" + t.String()
	config := api.NewConfig()
	config.Clusters[t.String()] = cluster
	config.AuthInfos[context] = credentials
	config.Contexts[context] = &api.Context{Cluster: t.String(), AuthInfo: context}
	config.CurrentContext = context
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return data, nil
}

// spaceURL returns the URL of the root of t's space at a server. The system
// space has the server's own root.
func spaceURL(server string, t tenant.Name) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("invalid server URL: %w", err)
	}
	if u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("server URL %q is not of the form https://HOST:PORT", server)
	}
	if t == tenant.System {
		return strings.TrimSuffix(u.String(), "/"), nil
	}
	return u.JoinPath(t.Root()).String(), nil
}

// Load returns the configuration of clients in a kubeconfig file. A file without a cluster is an error that names it.
func Load(path string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("%s names no cluster in its current context", path)
	}
	return config, err
}

// Server returns the URL of the current context's server in a kubeconfig file.
func Server(path string) (string, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the server's URL: %w", err)
	}
	if context := config.Contexts[config.CurrentContext]; context != nil {
		if cluster := config.Clusters[context.Cluster]; cluster != nil {
			return cluster.Server, nil
		}
	}
	return "", fmt.Errorf("%s names no server in its current context", path)
}
