package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/admission/published"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// Config has what the plugins need of the server.
type Config struct {
	// Informers are shared informers over all spaces in the flattened view
	// (spaces.NewInformerFactory). The caller starts them once the server is
	// configured.
	Informers informers.SharedInformerFactory
	// Client works on flattened names (spaces.NewClientConfig).
	Client kubernetes.Interface
	// Loopback is the configuration of a system administrator with the server's
	// plain URL. Admission policies with parameters read these through it.
	Loopback *rest.Config
	// Placement returns a Tenant's rules for its pods' nodes. It may be nil.
	Placement func(tenant.Name) *v1alpha1.NodePlacement
	// DaemonSets returns a Tenant's rules for its DaemonSets. It may be nil.
	DaemonSets func(tenant.Name) *v1alpha1.DaemonSets
	// Workloads returns what the pods of a tenant are held to, because they run on a host cluster. If
	// nil, pods do not run.
	Workloads func(tenant.Name) translate.Rules
	// Definition returns the definition of a custom resource in a space. It may be nil.
	Definition spacepolicy.Definitions
	// CheckDefinitionChange returns an error if a definition of a space may not change so because of its objects. If nil,
	// it may.
	CheckDefinitionChange func(ctx context.Context, n tenant.Name, resource schema.GroupResource, change cachememory.DefinitionChange) error
	// CacheMemory counts what the policies of spaces have in memory beside themselves. If nil, nothing does.
	CacheMemory *cachememory.Budget
	// DefinitionCosts returns what the definitions of a space cost, by their names. If nil, nothing.
	DefinitionCosts func(n tenant.Name) map[string]spacepolicy.DefinitionCosts
	// Egress restricts the webhooks of tenants.
	Egress egress.Options
	// Quota charges what is written in spaces. If nil, quotas of namespaces are
	// charged when a request is admitted, and those of tenants are not.
	Quota *quota.Ledger
	// Terminating reports whether a tenant is being deleted. Then the namespaces of its
	// space can be deleted too, and its webhooks and policies, whose backends may be gone,
	// are no longer called. It may be nil.
	Terminating func(tenant.Name) bool
	// TenantUID returns the UID of a known tenant, so that nothing cached for a space is
	// used for another tenant of the name. If nil, all have the same.
	TenantUID func(tenant.Name) types.UID
	// Namespaces returns a namespace of the flattened view, also one that the informers do not have yet: that is what a
	// request is about, and it shows whether it is still the one of the request.
	Namespaces spacepolicy.Namespaces
	// Published are the rules for published objects and their copies.
	Published published.Rules
}

// Register adds the plugins of tenancy to upstream's options, enabled by
// default and before all others, and enables NodeRestriction by default, as installers of
// Kubernetes do. It is called before flags are added.
func Register(o *options.AdmissionOptions) {
	o.GenericAdmission.DefaultOffPlugins.Delete(noderestriction.PluginName)
	spacepolicy.Register(o.GenericAdmission.Plugins, spacepolicy.Rules{}, func(*spacepolicy.Plugin) {})
	published.Register(o.GenericAdmission.Plugins, published.Rules{}) // Apply completes them
	o.GenericAdmission.RecommendedPluginOrder = slices.Concat(
		[]string{spacepolicy.PluginName, published.PluginName}, o.GenericAdmission.RecommendedPluginOrder)
}

// ErrUnrestrictedNodes says that nodes would have rights beyond their pods.
var ErrUnrestrictedNodes = errors.New("authorization mode Node needs the admission plugin NodeRestriction: without it, every node could have " +
	"tokens of service accounts of all tenants that last, and change what belongs to other nodes; leave the plugin on, or the mode out")

// ValidateNodes refuses options without NodeRestriction. It is for servers with
// authorization mode Node, which leaves it to the plugin to check the node of a pod.
func ValidateNodes(o *options.AdmissionOptions) error {
	if !runs(o, noderestriction.PluginName) {
		return ErrUnrestrictedNodes
	}
	return nil
}

// ValidateSpaces refuses options without the plugins that keep tenants from what is the
// platform's.
func ValidateSpaces(o *options.AdmissionOptions) error {
	for _, name := range []string{spacepolicy.PluginName, published.PluginName} {
		if !runs(o, name) {
			return fmt.Errorf("admission plugin %s keeps tenants from what is the platform's; remove it from --disable-admission-plugins, or add it to --admission-control", name)
		}
	}
	return nil
}

// runs reports whether options have a plugin that is on by default.
func runs(o *options.AdmissionOptions, name string) bool {
	return o != nil && (o.PluginNames == nil || slices.Contains(o.PluginNames, name)) && // --admission-control
		!slices.Contains(o.GenericAdmission.DisablePlugins, name)
}

// Apply replaces the plugins in o by ones that serve all spaces. It is called once, after
// Register and before o is applied to a server's configuration. Upstream still handles
// flags, the configuration file, the order and metrics. The returned Readiness knows the
// plugins when they have been built.
func Apply(o *options.AdmissionOptions, config Config) (*Readiness, error) {
	readiness := &Readiness{plugins: map[string]*awaited{}}
	if o == nil {
		return readiness, nil
	}
	shared, err := newShared(o.GenericAdmission.Plugins, config)
	if err != nil {
		return nil, err
	}
	plugins := admission.NewPlugins()
	for _, name := range o.GenericAdmission.Plugins.Registered() {
		mode, ok := modes[name]
		if !ok {
			return nil, fmt.Errorf("admission plugin %q is not known to work with spaces", name)
		}
		plugins.Register(name, shared.factory(name, mode))
	}
	o.GenericAdmission.Plugins = plugins
	o.GenericAdmission.Decorators = append(admission.Decorators{readiness.noting(inItsPhases)}, o.GenericAdmission.Decorators...)
	return readiness, nil
}
