package discovery

import (
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/tenantry/tenantry/internal/server/serializer"
	"github.com/tenantry/tenantry/internal/server/spaceapi"
)

// Discovery of a space shows what can be used there. What the system space alone has is
// left out. What clients expect in every cluster, such as nodes, stays without the verbs
// that are refused, so that who asks for it is told why and not that there is no such
// resource.

// usableIn returns what discovery shows of a group in spaces.
func usableIn(group apidiscoveryv2.APIGroupDiscovery) apidiscoveryv2.APIGroupDiscovery {
	group = *group.DeepCopy()
	for i := range group.Versions {
		resources := &group.Versions[i].Resources
		*resources = slices.DeleteFunc(*resources, func(resource apidiscoveryv2.APIResourceDiscovery) bool {
			return spaceapi.IsAbsent(schema.GroupResource{Group: group.Name, Resource: resource.Resource})
		})
		for j := range *resources {
			resource := &(*resources)[j]
			of := schema.GroupResource{Group: group.Name, Resource: resource.Resource}
			resource.Verbs = usableVerbs(of, "", resource.Verbs)
			resource.Subresources = slices.DeleteFunc(resource.Subresources, func(sub apidiscoveryv2.APISubresourceDiscovery) bool {
				return len(usableVerbs(of, sub.Subresource, sub.Verbs)) == 0
			})
		}
	}
	return group
}

// usableVerbs returns those of verbs that can be used in spaces, never nil.
func usableVerbs(resource schema.GroupResource, subresource string, verbs []string) []string {
	usable := make([]string, 0, len(verbs))
	for _, verb := range verbs {
		if spaceapi.Use(verb, resource, subresource) == nil {
			usable = append(usable, verb)
		}
	}
	return usable
}

// usableList changes the document of a group version to what it shows in spaces.
func usableList(group string, list *metav1.APIResourceList) {
	list.APIResources = slices.DeleteFunc(list.APIResources, func(resource metav1.APIResource) bool {
		name, sub, isSub := strings.Cut(resource.Name, "/")
		of := schema.GroupResource{Group: group, Resource: name}
		return spaceapi.IsAbsent(of) || isSub && len(usableVerbs(of, sub, resource.Verbs)) == 0
	})
	for i := range list.APIResources {
		resource := &list.APIResources[i]
		name, sub, _ := strings.Cut(resource.Name, "/")
		resource.Verbs = usableVerbs(schema.GroupResource{Group: group, Resource: name}, sub, resource.Verbs)
	}
}

// builtin is the discovery of what is built in.
type builtin struct {
	groups aggregated.ResourceManager
	// core serves the versions of the core group, and documents are those of group versions, by path.
	core      http.Handler
	documents map[string]runtime.Object
}

func (r *Router) newBuiltin() *builtin {
	b := &builtin{groups: aggregated.NewResourceManager("apis"), core: r.Builtin, documents: map[string]runtime.Object{}}
	b.groups.SetGroups(r.List())
	if err := r.addBuiltin(b); err != nil {
		klog.ErrorS(err, "Reading the API resources of all spaces")
	}
	return b
}

// addBuiltin adds the documents of group versions, and the aggregated one of the core group.
func (r *Router) addBuiltin(b *builtin) error {
	core, err := readGroups(r.Builtin, "/api")
	if err != nil {
		return err
	}
	for i := range core {
		core[i] = usableIn(core[i])
	}
	manager := aggregated.NewResourceManager("api")
	manager.SetGroups(core)
	b.core = aggregated.WrapAggregatedDiscoveryToHandler(r.Builtin, manager, manager)
	for _, group := range slices.Concat(core, r.List()) {
		if group.Name == apiregistration.GroupName {
			addDocuments(b.documents, []apidiscoveryv2.APIGroupDiscovery{group}) // no handler of spaces has them
			continue
		}
		for _, version := range group.Versions {
			path := serializer.RootOf(schema.GroupVersion{Group: group.Name, Version: version.Version})
			list := &metav1.APIResourceList{}
			if err := readJSON(r.handlerOfGroup(group.Name), path, runtime.ContentTypeJSON, list); err != nil {
				return err
			}
			usableList(group.Name, list)
			b.documents[path] = list
		}
	}
	return nil
}
