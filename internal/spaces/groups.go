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

// IsCustom reports whether kinds of a group are for each space to define.
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

func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}
func (f *factory) Apps() apps.Interface                 { return apps.New(f, "", nil) }
func (f *factory) Autoscaling() autoscaling.Interface   { return autoscaling.New(f, "", nil) }
func (f *factory) Batch() batch.Interface               { return batch.New(f, "", nil) }
func (f *factory) Certificates() certificates.Interface { return certificates.New(f, "", nil) }
func (f *factory) Coordination() coordination.Interface { return coordination.New(f, "", nil) }
func (f *factory) Core() core.Interface                 { return core.New(f, "", nil) }
func (f *factory) Discovery() discovery.Interface       { return discovery.New(f, "", nil) }
func (f *factory) Events() events.Interface             { return events.New(f, "", nil) }
func (f *factory) Extensions() extensions.Interface     { return extensions.New(f, "", nil) }
func (f *factory) Flowcontrol() flowcontrol.Interface   { return flowcontrol.New(f, "", nil) }
func (f *factory) Lifecycle() lifecycle.Interface       { return lifecycle.New(f, "", nil) }
func (f *factory) Networking() networking.Interface     { return networking.New(f, "", nil) }
func (f *factory) Node() node.Interface                 { return node.New(f, "", nil) }
func (f *factory) Policy() policy.Interface             { return policy.New(f, "", nil) }
func (f *factory) Rbac() rbac.Interface                 { return rbac.New(f, "", nil) }
func (f *factory) Resource() resource.Interface         { return resource.New(f, "", nil) }
func (f *factory) Scheduling() scheduling.Interface     { return scheduling.New(f, "", nil) }
func (f *factory) Storage() storage.Interface           { return storage.New(f, "", nil) }
func (f *factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, "", nil)
}
func (f *factory) Internal() apiserverinternal.Interface { return apiserverinternal.New(f, "", nil) }
