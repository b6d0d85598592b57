package tenant

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// FieldManager owns the fields that this controller writes.
const FieldManager = "tenantry-tenant-controller"

// Spaces writes into every space through one connection pool.
type Spaces struct {
	config *rest.Config
	http   *http.Client
	core   rest.Interface
	rbac   rest.Interface
}

// NewSpaces returns a client for all spaces.
func NewSpaces(config *rest.Config) (*Spaces, error) {
	shared := rest.CopyConfig(config)
	shared.QPS = -1 // the server's priority and fairness limits, not the client
	pool, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, err
	}
	s := &Spaces{config: shared, http: pool}
	if s.core, err = s.restClient(corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	s.rbac, err = s.restClient(rbacv1.SchemeGroupVersion)
	return s, err
}

func (s *Spaces) restClient(gv schema.GroupVersion) (rest.Interface, error) {
	config := rest.CopyConfig(s.config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.APIPath = "/api"
	config.GroupVersion = &gv
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	return rest.RESTClientForConfigAndClient(config, s.http)
}

func (s *Spaces) path(n tenant.Name, rest string) string {
	return "/tenants/" + string(n) + rest
}

// CreateNamespace creates a namespace in the space of n.
func (s *Spaces) CreateNamespace(ctx context.Context, n tenant.Name, name string) error {
	return s.core.Post().AbsPath(s.path(n, "/api/v1/namespaces")).
		Body(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}).Do(ctx).Error()
}

const bindingsPath = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"

// CreateBinding creates a ClusterRoleBinding in the space of n.
func (s *Spaces) CreateBinding(ctx context.Context, n tenant.Name, binding *rbacv1.ClusterRoleBinding) error {
	return s.rbac.Post().AbsPath(s.path(n, bindingsPath)).Body(binding).Do(ctx).Error()
}

// DeleteBinding deletes the observed ClusterRoleBinding, so that it is created
// anew: the role of a binding cannot be changed.
func (s *Spaces) DeleteBinding(ctx context.Context, n tenant.Name, binding *rbacv1.ClusterRoleBinding) error {
	return s.rbac.Delete().AbsPath(s.path(n, bindingsPath+"/"+AdminBinding)).
		Body(&metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(binding.UID))}).Do(ctx).Error()
}

const quotasPath = "/api/v1/namespaces/" + metav1.NamespaceDefault + "/resourcequotas"

// CreateQuota creates the default ResourceQuota in the space of n.
func (s *Spaces) CreateQuota(ctx context.Context, n tenant.Name, quota *corev1.ResourceQuota) error {
	return s.core.Post().AbsPath(s.path(n, quotasPath)).Body(quota).Do(ctx).Error()
}

// UpdateQuota replaces the default ResourceQuota in the space of n.
func (s *Spaces) UpdateQuota(ctx context.Context, n tenant.Name, quota *corev1.ResourceQuota) error {
	return s.core.Put().AbsPath(s.path(n, quotasPath+"/"+quota.Name)).Body(quota).Do(ctx).Error()
}

// root returns a configuration whose server is the space root of n. Clients
// made from it share the connection pool and are garbage after the call.
func (s *Spaces) root(n tenant.Name) *rest.Config {
	config := rest.CopyConfig(s.config)
	config.Host += s.path(n, "")
	return config
}

// Discovery returns what is served in the space of n.
func (s *Spaces) Discovery(n tenant.Name) (discovery.DiscoveryInterface, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(s.root(n), s.http)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client of tenant %q: %w", n, err)
	}
	return client, nil
}

// Metadata returns a client for the metadata of every object in the space of n.
func (s *Spaces) Metadata(n tenant.Name) (metadata.Interface, error) {
	client, err := metadata.NewForConfigAndClient(metadata.ConfigFor(s.root(n)), s.http)
	if err != nil {
		return nil, fmt.Errorf("creating the metadata client of tenant %q: %w", n, err)
	}
	return client, nil
}
