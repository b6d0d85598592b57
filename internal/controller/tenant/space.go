package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// FieldManager owns the fields that this controller writes, in the space and in the
	// status of the Tenant.
	FieldManager = "tenantry-tenant-controller"
	// quotaFieldManager owns the quota in the status.
	quotaFieldManager = "tenantry-quota-status"
)

// Spaces writes into every space through one connection pool.
type Spaces struct {
	config *rest.Config
	http   *http.Client
	rest   rest.Interface
}

// NewSpaces returns a client for all spaces. config names the system space.
func NewSpaces(config *rest.Config) (*Spaces, error) {
	shared := rest.CopyConfig(config)
	shared.QPS = -1 // the server's priority and fairness limits, not the client
	pool, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, err
	}
	core := rest.CopyConfig(shared)
	core.ContentType, core.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	core.APIPath = "/api"
	// All paths are absolute and all types know their own group, so this one
	// client serves every group.
	core.GroupVersion = &schema.GroupVersion{Version: "v1"}
	core.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(core, pool)
	if err != nil {
		return nil, err
	}
	return &Spaces{config: shared, http: pool, rest: client}, nil
}

const (
	namespacesPath = "/api/v1/namespaces"
	quotasPath     = namespacesPath + "/" + metav1.NamespaceDefault + "/resourcequotas"
	bindingsPath   = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	reviewsPath    = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
)

func (s *Spaces) create(ctx context.Context, n tenant.Name, path string, obj runtime.Object) error {
	return s.rest.Post().AbsPath(n.Root()+path).Param("fieldManager", FieldManager).Body(obj).Do(ctx).Error()
}

func (s *Spaces) update(ctx context.Context, n tenant.Name, path string, obj runtime.Object) error {
	return s.rest.Put().AbsPath(n.Root()+path).Param("fieldManager", FieldManager).Body(obj).Do(ctx).Error()
}

// CreateNamespace creates a namespace in the space of n.
func (s *Spaces) CreateNamespace(ctx context.Context, n tenant.Name, name string) error {
	return s.create(ctx, n, namespacesPath, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// ListNamespaces lists the namespaces in the space of n.
func (s *Spaces) ListNamespaces(ctx context.Context, n tenant.Name) ([]corev1.Namespace, error) {
	list := &corev1.NamespaceList{}
	err := s.rest.Get().AbsPath(n.Root() + namespacesPath).Do(ctx).Into(list)
	return list.Items, err
}

// DeleteNamespace deletes a namespace in the space of n.
func (s *Spaces) DeleteNamespace(ctx context.Context, n tenant.Name, name string) error {
	return s.rest.Delete().AbsPath(n.Root() + namespacesPath + "/" + name).Do(ctx).Error()
}

// FinalizeNamespace replaces the finalizers in a namespace's spec.
func (s *Spaces) FinalizeNamespace(ctx context.Context, n tenant.Name, namespace *corev1.Namespace) error {
	return s.update(ctx, n, namespacesPath+"/"+namespace.Name+"/finalize", namespace)
}

// CreateServiceAccount creates a service account in the space of n.
func (s *Spaces) CreateServiceAccount(ctx context.Context, n tenant.Name, namespace, name string) error {
	return s.create(ctx, n, namespacesPath+"/"+namespace+"/serviceaccounts",
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// CreateQuota creates the default ResourceQuota in the space of n.
func (s *Spaces) CreateQuota(ctx context.Context, n tenant.Name, quota *corev1.ResourceQuota) error {
	return s.create(ctx, n, quotasPath, quota)
}

// UpdateQuota replaces the default ResourceQuota in the space of n. To apply it would leave
// limits in it that somebody else has set.
func (s *Spaces) UpdateQuota(ctx context.Context, n tenant.Name, quota *corev1.ResourceQuota) error {
	return s.update(ctx, n, quotasPath+"/"+quota.Name, quota)
}

// ApplyBinding makes a ClusterRoleBinding in the space of n what it is to be, whoever
// else has written it. One to another role is invalid: it has to be replaced.
func (s *Spaces) ApplyBinding(ctx context.Context, n tenant.Name, binding *rbacv1.ClusterRoleBinding) error {
	body, err := json.Marshal(binding)
	if err != nil {
		return err
	}
	return s.rest.Patch(types.ApplyPatchType).AbsPath(n.Root()+bindingsPath+"/"+binding.Name).
		Param("fieldManager", FieldManager).Param("force", "true").Body(body).Do(ctx).Error()
}

// DeleteBinding deletes a ClusterRoleBinding in the space of n.
func (s *Spaces) DeleteBinding(ctx context.Context, n tenant.Name, name string) error {
	return s.rest.Delete().AbsPath(n.Root() + bindingsPath + "/" + name).Do(ctx).Error()
}

// IsAdmin asks the server whether a user or group has every right in the space of n.
func (s *Spaces) IsAdmin(ctx context.Context, n tenant.Name, subject rbacv1.Subject) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
	}}
	if subject.Kind == rbacv1.GroupKind {
		review.Spec.Groups = []string{subject.Name}
	} else {
		review.Spec.User = subject.Name
	}
	answer := &authorizationv1.SubjectAccessReview{}
	err := s.rest.Post().AbsPath(n.Root() + reviewsPath).Body(review).Do(ctx).Into(answer)
	return answer.Status.Allowed, err
}

// servedVersions returns in which versions a group is served in the space of n,
// the preferred one first.
func (s *Spaces) servedVersions(ctx context.Context, n tenant.Name, group string) ([]string, error) {
	switch group {
	case corev1.GroupName, rbacv1.GroupName:
		return []string{"v1"}, nil
	}
	served := &metav1.APIGroup{}
	if err := s.rest.Get().AbsPath(n.Root() + "/apis/" + group).Do(ctx).Into(served); err != nil {
		return nil, fmt.Errorf("discovering the versions of group %q: %w", group, err)
	}
	versions := make([]string, 0, len(served.Versions)+1)
	if served.PreferredVersion.Version != "" {
		versions = append(versions, served.PreferredVersion.Version)
	}
	for _, version := range served.Versions {
		if version.Version != served.PreferredVersion.Version {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}
