package spaces

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/lifecycle"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/kubernetes/scheme"
)

// resourceOf returns the resource of a kind. The guess is right for every kind
// in client-go's scheme that has an informer (factory_test.go compares them all).
func resourceOf(kind schema.GroupVersionKind) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	return resource
}

// ResourceOf returns the resource of a kind that has a shared informer, and
// whether it has one.
func ResourceOf(kind schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	resource := resourceOf(kind)
	return resource, kindsByResource()[resource] == kind
}

// IsCustom reports whether each space defines the kinds of a group for itself.
func IsCustom(apiVersion string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err != nil || !scheme.Scheme.IsGroupRegistered(gv.Group) && !systemGroups[gv.Group]
}

// systemGroups are served in every space and have no Go types in client-go.
var systemGroups = map[string]bool{
	"apiextensions.k8s.io":   true,
	"apiregistration.k8s.io": true,
	"tenantry.io":            true,
}

// kindsByResource is the inverse of resourceOf over client-go's scheme.
var kindsByResource = sync.OnceValue(func() map[schema.GroupVersionResource]schema.GroupVersionKind {
	kinds := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		kinds[resourceOf(kind)] = kind
	}
	return kinds
})

// Groups are the API groups of a SharedInformerFactory that has the informers of Factory. A
// factory that embeds only them does not compile when client-go adds a group, so that
// somebody decides whether its informers see that group.
type Groups struct {
	Factory internalinterfaces.SharedInformerFactory
}

func (g Groups) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(g.Factory, "", nil)
}
func (g Groups) Apps() apps.Interface                 { return apps.New(g.Factory, "", nil) }
func (g Groups) Autoscaling() autoscaling.Interface   { return autoscaling.New(g.Factory, "", nil) }
func (g Groups) Batch() batch.Interface               { return batch.New(g.Factory, "", nil) }
func (g Groups) Certificates() certificates.Interface { return certificates.New(g.Factory, "", nil) }
func (g Groups) Coordination() coordination.Interface { return coordination.New(g.Factory, "", nil) }
func (g Groups) Core() core.Interface                 { return core.New(g.Factory, "", nil) }
func (g Groups) Discovery() discovery.Interface       { return discovery.New(g.Factory, "", nil) }
func (g Groups) Events() events.Interface             { return events.New(g.Factory, "", nil) }
func (g Groups) Extensions() extensions.Interface     { return extensions.New(g.Factory, "", nil) }
func (g Groups) Flowcontrol() flowcontrol.Interface   { return flowcontrol.New(g.Factory, "", nil) }
func (g Groups) Lifecycle() lifecycle.Interface       { return lifecycle.New(g.Factory, "", nil) }
func (g Groups) Networking() networking.Interface     { return networking.New(g.Factory, "", nil) }
func (g Groups) Node() node.Interface                 { return node.New(g.Factory, "", nil) }
func (g Groups) Policy() policy.Interface             { return policy.New(g.Factory, "", nil) }
func (g Groups) Rbac() rbac.Interface                 { return rbac.New(g.Factory, "", nil) }
func (g Groups) Resource() resource.Interface         { return resource.New(g.Factory, "", nil) }
func (g Groups) Scheduling() scheduling.Interface     { return scheduling.New(g.Factory, "", nil) }
func (g Groups) Storage() storage.Interface           { return storage.New(g.Factory, "", nil) }
func (g Groups) Storagemigration() storagemigration.Interface {
	return storagemigration.New(g.Factory, "", nil)
}
func (g Groups) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(g.Factory, "", nil)
}
