package kubecontrollers

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// synced is an informer that has read everything.
type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

// asked counts for which namespaces a metadata client is asked.
type asked struct {
	metadata.Interface
	metadata.ResourceInterface
	namespaces *[]string
}

func (a asked) Resource(schema.GroupVersionResource) metadata.Getter { return a }

func (a asked) Namespace(namespace string) metadata.ResourceInterface {
	*a.namespaces = append(*a.namespaces, namespace)
	return a
}

// TestDefinedMetadata checks for which namespaces the namespace controller asks for a resource:
// what a space defines, or the system space publishes, may be there.
func TestDefinedMetadata(t *testing.T) {
	definitions := synced{cache.NewSharedIndexInformer(&cache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, definitionIndexers)}
	define := func(name, plural string, labels map[string]string) {
		if err := definitions.GetStore().Add(&apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com"},
			Status:     apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	define("a|widgets.example.com", "widgets", nil)
	define("gears.example.com", "gears", map[string]string{tenant.PublishedDefinitionLabel: "true"})
	for _, tc := range []struct {
		group, resource, namespace string
		want                       bool
	}{
		{"example.com", "widgets", "a|ns", true},
		{"example.com", "widgets", "b|ns", false},
		{"example.com", "widgets", "ns", true}, // nothing is known of the system space's own
		{"example.com", "gears", "b|ns", true},
		{"apps", "deployments", "b|ns", true},
		{"", "pods", "b|ns", true},
		{"tenantry.io", "tenantaccesspolicies", "b|ns", true},
	} {
		var namespaces []string
		client := definedMetadata{asked{namespaces: &namespaces}, &customResources{definitions: definitions}}
		objects := client.Resource(schema.GroupVersionResource{Group: tc.group, Version: "v1", Resource: tc.resource}).Namespace(tc.namespace)
		if got := len(namespaces) > 0; got != tc.want {
			t.Errorf("%s.%s in %s: asked: %v, want %v", tc.resource, tc.group, tc.namespace, got, tc.want)
		}
		if tc.want {
			continue
		}
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) > 0 {
			t.Errorf("listed %v, %v", list, err)
		}
		if err := objects.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// TestOfSpaces has the system space aggregate resources by names that a space defines as well. Where they cannot be
// emptied, as metrics of pods, what the space has is deleted with its namespace, and namespaces of the system space
// have nothing.
func TestOfSpaces(t *testing.T) {
	definitions := synced{cache.NewSharedIndexInformer(&cache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, definitionIndexers)}
	names := apiextensionsv1.CustomResourceDefinitionNames{Plural: "pods", Kind: "PodMetrics"}
	if err := definitions.GetStore().Add(&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "a|pods.metrics.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "metrics.example.com", Scope: apiextensionsv1.NamespaceScoped, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{AcceptedNames: names},
	}); err != nil {
		t.Fatal(err)
	}
	pods := schema.GroupVersionResource{Group: "metrics.example.com", Version: "v1", Resource: "pods"}
	for name, tc := range map[string]struct {
		verbs  metav1.Verbs
		system bool // may have some
	}{
		"metrics":                    {metav1.Verbs{"get", "list"}, false},
		"metrics without lists":      {metav1.Verbs{"get"}, false},
		"what is deleted one by one": {metav1.Verbs{"delete", "get", "list"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			custom := &customResources{definitions: definitions}
			lists, err := custom.addNamespaced([]*metav1.APIResourceList{{GroupVersion: "metrics.example.com/v1",
				APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: tc.verbs}}}})
			if err != nil {
				t.Fatal(err)
			}
			deleted, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists))
			if _, ok := deleted[pods]; err != nil || !ok {
				t.Errorf("the namespace controller deletes %v, %v; want %v", deleted, err, pods)
			}
			for namespace, want := range map[string]bool{"a|ns": true, "b|ns": false, "ns": tc.system} {
				var namespaces []string
				definedMetadata{asked{namespaces: &namespaces}, custom}.Resource(pods).Namespace(namespace)
				if got := len(namespaces) > 0; got != want {
					t.Errorf("in %s: asked: %v, want %v", namespace, got, want)
				}
			}
		})
	}
}

// TestUndiscovered deletes namespaces while the discovery of an API fails that the system space aggregates: those of
// the system space may have objects of it, those of others may not.
func TestUndiscovered(t *testing.T) {
	custom := &customResources{definitions: synced{cache.NewSharedIndexInformer(&cache.ListWatch{}, &apiextensionsv1.CustomResourceDefinition{}, 0, definitionIndexers)}}
	aggregated, builtIn := schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}, schema.GroupVersion{Group: "apps", Version: "v1"}
	lists := addUndiscovered(nil, &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{aggregated: nil, builtIn: nil}})
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"delete"}}, lists))
	if err != nil || len(resources) != 2 {
		t.Fatalf("%v, %v", resources, err)
	}
	for resource := range resources {
		for namespace, want := range map[string]bool{"ns": true, "a|ns": resource.Group == "apps"} {
			objects := definedMetadata{asked{namespaces: &[]string{}}, custom}.Resource(resource).Namespace(namespace)
			err := objects.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
			if (err != nil) != want {
				t.Errorf("%s in %s: %v, want an error: %v", resource.Group, namespace, err, want)
			}
		}
	}
}
