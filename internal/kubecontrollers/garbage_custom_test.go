package kubecontrollers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// failingMetadata answers lists with an error, when it is given one.
type failingMetadata struct {
	metadata.ResourceInterface
	list func(context.Context) error
}

func (f failingMetadata) Resource(schema.GroupVersionResource) metadata.Getter { return f }
func (f failingMetadata) Namespace(string) metadata.ResourceInterface          { return f }
func (f failingMetadata) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return nil, errors.New("not answered")
}

func (f failingMetadata) List(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return nil, f.list(ctx)
}

// TestUnsyncedDefinition checks for how long a resource whose objects cannot be listed
// keeps the collector waiting, which meanwhile does not see new definitions.
func TestUnsyncedDefinition(t *testing.T) {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	for name, tc := range map[string]struct {
		list   func(context.Context) error
		within time.Duration
	}{
		"gone":    {func(context.Context) error { return apierrors.NewNotFound(widgets.GroupResource(), "") }, time.Second},
		"hanging": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, garbageInitialSync},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				informer, err := newCustomInformer(failingMetadata{list: tc.list}, newInterest(nil, func(tenant.Name) {}), widgets)
				if err != nil {
					t.Fatal(err)
				}
				go informer.Informer().GetController().Run(t.Context().Done())
				synctest.Wait()
				time.Sleep(tc.within)
				if !informer.Informer().GetController().HasSynced() {
					t.Errorf("the collector still waits after %v", tc.within)
				}
			})
		})
	}
}

// noDiscovery is a server that does not answer.
type noDiscovery struct{ discovery.DiscoveryInterface }

func (noDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return nil, errors.New("no answer")
}

// TestFailedDiscovery checks that the collector does not take the resources that spaces
// define for all there are, and stop watching the others.
func TestFailedDiscovery(t *testing.T) {
	definitions := cache.NewSharedIndexInformer(&cache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, cache.Indexers{})
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "a|widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		},
	}
	if err := definitions.GetStore().Add(definition); err != nil {
		t.Fatal(err)
	}
	lists, err := customDiscovery{noDiscovery{}, &customResources{definitions: definitions}}.ServerPreferredResources()
	if len(lists) > 0 || err == nil {
		t.Errorf("resources %v, %v", lists, err)
	}
}
