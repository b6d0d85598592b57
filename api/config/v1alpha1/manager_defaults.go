package v1alpha1

import (
	"fmt"
	"os"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// maxConcurrency is more than any server answers at once: each takes a goroutine from the start.
const maxConcurrency = 1000

// Default fills in what c leaves open. The built-in quota limits what costs other
// tenants something and leaves out what the platform itself keeps in every
// namespace, such as the certificate authority's ConfigMap. The limit of bytes is an eighth of
// the space quota of the embedded etcd: one tenant that fills its own leaves room for others.
func (c *ManagerConfiguration) Default() {
	if c.DefaultQuota == nil {
		c.DefaultQuota = corev1.ResourceList{
			corev1.ResourcePods:                   resource.MustParse("1000"),
			corev1.ResourceServices:               resource.MustParse("500"),
			corev1.ResourcePersistentVolumeClaims: resource.MustParse("500"),
			v1alpha1.ResourceStoredBytes:          resource.MustParse("1Gi"),
		}
	}
	if c.Publishable == nil {
		c.Publishable = slices.Clone(defaultPublishable)
	}
	if c.Concurrency == 0 {
		c.Concurrency = 16
	}
}

var defaultPublishable = []string{
	"configmaps", "secrets", "limitranges", "resourcequotas",
	"networkpolicies.networking.k8s.io", "ingressclasses.networking.k8s.io",
	"priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io", "runtimeclasses.node.k8s.io",
	"roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
	"clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io",
	"mutatingadmissionpolicies.admissionregistration.k8s.io",
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io",
}

// neverPublishable says why objects of some resources are not copied.
var neverPublishable = map[string]string{
	"pods":                             "pods are made by what is published, such as Deployments",
	"replicasets.apps":                 "replica sets are made by Deployments, which can be published",
	"controllerrevisions.apps":         "controller revisions are made by StatefulSets and DaemonSets, which can be published",
	"nodes":                            "nodes belong to the system space",
	"services":                         "its endpoints are those of one space",
	"endpointslices.discovery.k8s.io":  "its endpoints are those of one space",
	"events":                           "events are about objects of their own space",
	"events.events.k8s.io":             "events are about objects of their own space",
	"tenants.tenantry.io":              "tenants belong to the system space",
	"tenantaccesspolicies.tenantry.io": "access to a space is for its tenant to grant",
	"users.tenantry.io":                "users of a tenant are for the tenant to name",
}

// NeverPublishable reports whether no configuration can publish objects of a resource,
// and why. An annotation on one publishes nothing: what controllers make of a published
// object, such as the ReplicaSets of a Deployment, may have it.
func NeverPublishable(r schema.GroupResource) (reason string, never bool) {
	reason, never = neverPublishable[r.String()]
	return reason, never
}

// HoldsCredentials reports whether Secrets of a type hold credentials of the space that they are
// in. They are never published.
func HoldsCredentials(secretType corev1.SecretType) bool {
	return secretType == corev1.SecretTypeServiceAccountToken || secretType == corev1.SecretTypeBootstrapToken
}

// DefaultPublishable returns the resources that are published if the configuration names
// none.
func DefaultPublishable() []string { return slices.Clone(defaultPublishable) }

// PublishableResources returns what Publishable names.
func (c *ManagerConfiguration) PublishableResources() []schema.GroupResource {
	resources := make([]schema.GroupResource, len(c.Publishable))
	for i, name := range c.Publishable {
		resources[i] = schema.ParseGroupResource(name)
	}
	return resources
}

// ValidatePublishable reports the first name that is not that of a resource of which
// objects can be published, or is there twice.
func ValidatePublishable(names []string) error {
	for i, name := range names {
		if reason, never := neverPublishable[name]; never {
			return fmt.Errorf("%q cannot be published: %s", name, reason)
		}
		if name == "" || slices.Contains(names[:i], name) {
			return fmt.Errorf("%q is empty or there twice", name)
		}
		if !builtin().Has(schema.ParseGroupResource(name)) {
			return fmt.Errorf("%q is not built in; name resources like \"configmaps\" or \"roles.rbac.authorization.k8s.io\"", name)
		}
	}
	return nil
}

// builtin are the resources of Kubernetes that can be listed.
var builtin = sync.OnceValue(func() sets.Set[schema.GroupResource] {
	resources := sets.New(schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"})
	for kind := range scheme.Scheme.AllKnownTypes() {
		if scheme.Scheme.Recognizes(kind.GroupVersion().WithKind(kind.Kind + "List")) {
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			resources.Insert(plural.GroupResource())
		}
	}
	return resources
})

// counted reports whether spaces may have objects of a resource. Those of definitions are
// not known here: groups that nobody has built in are left open.
func counted(r schema.GroupResource) bool {
	switch r.Group {
	case "extensions", "apiregistration.k8s.io", "metrics.k8s.io": // served no more, or without objects of a space
		return false
	case v1alpha1.GroupVersion.Group:
		return r.Resource == "users" || r.Resource == "tenantaccesspolicies"
	case "apiextensions.k8s.io":
		return r.Resource == "customresourcedefinitions"
	}
	return builtin().Has(r) || !scheme.Scheme.IsGroupRegistered(r.Group)
}

// Validate reports the first thing that is wrong with c.
func (c *ManagerConfiguration) Validate() error {
	if c.APIVersion != GroupVersion.String() || c.Kind != "ManagerConfiguration" {
		return fmt.Errorf("apiVersion %q, kind %q: want %q, %q", c.APIVersion, c.Kind, GroupVersion, "ManagerConfiguration")
	}
	if len(c.DefaultQuota) == 0 && c.DefaultQuota != nil {
		return fmt.Errorf("defaultQuota: every tenant has a quota, so it needs at least one limit; leave the field out for the built-in default")
	}
	if errs := v1alpha1.ValidateQuota(c.DefaultQuota, nil, counted, field.NewPath("defaultQuota")); len(errs) > 0 {
		return errs.ToAggregate()
	}
	if err := ValidatePublishable(c.Publishable); err != nil {
		return fmt.Errorf("publishable: %w", err)
	}
	if c.Concurrency < 0 || c.Concurrency > maxConcurrency {
		return fmt.Errorf("concurrency: %d is not between 1 and %d; leave it out for the default", c.Concurrency, maxConcurrency)
	}
	return nil
}

// LoadManagerConfiguration reads a configuration file, see ParseManagerConfiguration. Without
// a path it returns the defaults.
func LoadManagerConfiguration(path string) (*ManagerConfiguration, error) {
	if path == "" {
		c := &ManagerConfiguration{}
		c.Default()
		return c, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the manager's configuration: %w", err)
	}
	c, err := ParseManagerConfiguration(content)
	if err != nil {
		return nil, fmt.Errorf("the manager's configuration %q: %w", path, err)
	}
	return c, nil
}

// ParseManagerConfiguration reads a configuration, JSON or YAML, validates it and fills in
// the defaults. An unknown field is an error.
func ParseManagerConfiguration(content []byte) (*ManagerConfiguration, error) {
	c := &ManagerConfiguration{}
	if err := readStrict(content, c); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Default()
	return c, nil
}
