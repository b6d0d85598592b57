package kubecontrollers

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
)

// One garbage collector serves all spaces. Its graph is keyed by UID, and it
// looks an owner up by the name in an owner reference, in the dependent's
// namespace or in none, as the owner's kind has it. On the flattened view as it
// is, a cluster-scoped owner would be looked up in the system space, not be
// found, and its dependents be deleted.
//
// So the collector sees identities: the names of all objects and of all owners,
// and all UIDs, are flattened ("acme|web", "acme|6f0c...").
//
//   - An owner reference says which space it is of, whatever the scope of its
//     kind. The client maps it back (spaces.NewIdentityClientConfig) and refuses a
//     request that names two spaces.
//   - No UID of one space occurs in another, so the graph falls into one part per
//     space: an owner in another space is no owner and blocks no deletion.
//   - Kinds and resources that a space defines carry its name, too ("acme|Widget",
//     "acme|widgets"): another space may mean something else by them. Each has an
//     informer of its own, as long as it is defined (garbage_custom.go).
//   - An owner whose name is none (it has a slash, say) is refused by the client. It can
//     be neither alive nor dead, so what names it stays, and is tried again ever later.
//   - "Not found" counts only if the server says it of this very object. A
//     resource that a space does not serve is no proof of anything.

const (
	garbageInitialSync = 30 * time.Second
	garbageDiscovery   = 10 * time.Second
)

func newGarbageCollector(ctx context.Context, e *environment) (runner, error) {
	client, err := kubernetes.NewForConfig(e.identities)
	if err != nil {
		return nil, fmt.Errorf("creating its client: %w", err)
	}
	metadataClient, err := spaces.NewMetadataClient(e.identities)
	if err != nil {
		return nil, fmt.Errorf("creating its metadata client: %w", err)
	}
	c, err := garbagecollector.NewGarbageCollector(ctx, client, metadataClient, customMapper{e.mapper, e.custom},
		garbagecollector.DefaultIgnoredResources(), &identityInformers{
			typed:    e.informers,
			interest: newInterest(e.informers, e.debts.waits),
			other:    metadatainformer.NewSharedInformerFactory(metadataClient, 0),
			metadata: metadataClient,
		}, e.started)
	return runFunc(func(ctx context.Context, workers int) {
		go c.Sync(ctx, customDiscovery{e.discovery, e.custom}, garbageDiscovery)
		c.Run(ctx, workers, garbageInitialSync)
	}), err
}

// identityInformers are the informers of the garbage collector: the shared ones,
// whose objects are shown with identities, and for resources without a Go type
// its own.
type identityInformers struct {
	typed    informers.SharedInformerFactory
	interest *interest
	other    metadatainformer.SharedInformerFactory
	metadata metadata.Interface
}

var _ informerfactory.InformerFactory = &identityInformers{}

func (i *identityInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if spaces.IsCustom(resource.GroupVersion().String()) {
		return newCustomInformer(i.metadata, i.interest, resource)
	}
	shared, err := i.typed.ForResource(resource)
	if err != nil {
		return i.other.ForResource(resource), nil
	}
	return identityInformer{shared, i.interest, resource}, nil
}

func (i *identityInformers) Start(stop <-chan struct{}) {
	i.typed.Start(stop)
	i.other.Start(stop)
}

type identityInformer struct {
	informers.GenericInformer
	interest *interest
	resource schema.GroupVersionResource
}

func (i identityInformer) Informer() cache.SharedIndexInformer {
	return identityIndexInformer{i.GenericInformer.Informer(), i.interest, i.resource}
}

type identityIndexInformer struct {
	cache.SharedIndexInformer
	interest *interest
	resource schema.GroupVersionResource
}

// GetStore returns an empty store. The collector uses it to save a request; the
// shared one holds objects without identities.
func (i identityIndexInformer) GetStore() cache.Store {
	return cache.NewStore(cache.MetaNamespaceKeyFunc)
}

// identityOf returns the metadata of an object of the flattened view with its
// identity flattened. Objects of the system space are their own identity.
func identityOf(obj any) any {
	obj = lastKnown(obj)
	source, ok := obj.(metav1.Object)
	if !ok {
		return obj
	}
	name := source.GetName()
	space := tenant.Flat(name).Space()
	if namespace := source.GetNamespace(); namespace != "" {
		space = tenant.Flat(namespace).Space()
		name = tenant.Flatten(space, name).String()
	}
	owners := flattenedOwners(space, source.GetOwnerReferences())
	if space == tenant.System && slices.Equal(owners, source.GetOwnerReferences()) {
		return obj
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:                  source.GetNamespace(),
		Name:                       name,
		UID:                        types.UID(tenant.Flatten(space, string(source.GetUID()))),
		ResourceVersion:            source.GetResourceVersion(),
		DeletionTimestamp:          source.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: source.GetDeletionGracePeriodSeconds(),
		Finalizers:                 source.GetFinalizers(),
		OwnerReferences:            owners,
	}}
}

func flattenedOwners(space tenant.Name, owners []metav1.OwnerReference) []metav1.OwnerReference {
	if len(owners) == 0 {
		return nil
	}
	flattened := make([]metav1.OwnerReference, len(owners))
	for i, owner := range owners {
		if spaces.IsCustom(owner.APIVersion) {
			owner.Kind = tenant.Flatten(space, owner.Kind).String()
		}
		owner.Name = tenant.Flatten(space, owner.Name).String()
		owner.UID = types.UID(tenant.Flatten(space, string(owner.UID)))
		flattened[i] = owner
	}
	return flattened
}
