package spaceclient

import (
	"fmt"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

// AsPublisher returns the configuration of clients that impersonate the publisher, of one whose user may.
func AsPublisher(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: tenant.Publisher, Groups: []string{user.SystemPrivilegedGroup}}
	return config
}

// scheme has the kinds that are read and written.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}()

// Mapper knows the kinds that controllers keep in spaces, so that they need not be discovered.
var Mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(v1alpha1.GroupVersion.WithKind("User"), meta.RESTScopeRoot)
	m.Add(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("ResourceQuota"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), meta.RESTScopeRoot)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("Role"), meta.RESTScopeNamespace)
	m.Add(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), meta.RESTScopeNamespace)
	return m
}()

// requestTimeout is how long a request may take, with the times for which an answer has its client wait (Retry-After):
// a server that answers at all does it within a minute. A worker of a controller waits for it.
const requestTimeout = time.Minute

// Spaces makes clients of spaces, which do not watch. They share their connections, and have no limit but that of the
// server's priority and fairness.
type Spaces struct {
	config     *rest.Config
	http       *http.Client
	fieldOwner string
}

// New returns clients for a user of the system space, which config names, and for the owner of the
// fields that are written.
func New(config *rest.Config, fieldOwner string) (*Spaces, error) {
	s := &Spaces{config: rest.CopyConfig(config), fieldOwner: fieldOwner}
	s.config.QPS, s.config.Timeout = -1, requestTimeout
	var err error
	if s.http, err = rest.HTTPClientFor(s.config); err != nil {
		return nil, fmt.Errorf("creating the clients of %s: %w", fieldOwner, err)
	}
	if _, err := s.in(tenant.System.Scope()); err != nil {
		return nil, fmt.Errorf("creating the clients of %s: %w", fieldOwner, err)
	}
	return s, nil
}

// Config returns the configuration and the connections of other clients of a space.
func (s *Spaces) Config(of tenant.Scope) (*rest.Config, *http.Client) {
	config := rest.CopyConfig(s.config)
	config.Host += of.Root()
	return config, s.http
}

// In returns a client of a space, of the kinds that Mapper knows. It is not to be kept.
func (s *Spaces) In(of tenant.Scope) client.Client {
	c, err := s.in(of)
	utilruntime.Must(err) // New has seen that there is none
	return c
}

func (s *Spaces) in(of tenant.Scope) (client.Client, error) {
	config, connections := s.Config(of)
	return client.New(config, client.Options{HTTPClient: connections, Scheme: scheme, Mapper: Mapper, FieldOwner: s.fieldOwner})
}
