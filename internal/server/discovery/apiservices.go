package discovery

import (
	"errors"
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Clients expect the API group of APIServices in every cluster. In a space it is
// there, without a verb: which API servers are aggregated is the platform's
// matter, and a request is told so.

var errAggregation = errors.New("other API servers are aggregated by the platform only, for the system space; " +
	"define own resources with CustomResourceDefinitions")

// withoutVerbs returns what discovery tells of a group that cannot be used.
func withoutVerbs(group apidiscoveryv2.APIGroupDiscovery) apidiscoveryv2.APIGroupDiscovery {
	group = *group.DeepCopy()
	for i := range group.Versions {
		for j := range group.Versions[i].Resources {
			group.Versions[i].Resources[j].Verbs = []string{}
			group.Versions[i].Resources[j].Subresources = nil
		}
	}
	return group
}

// apiServices serves the group of APIServices in a space.
func apiServices(group apidiscoveryv2.APIGroupDiscovery, serializer runtime.NegotiatedSerializer) http.Handler {
	const root = "/apis/" + apiregistration.GroupName
	documents := make(map[string]runtime.Object, 1+len(group.Versions))
	whole := toGroup(&group)
	documents[root] = &whole
	for _, version := range group.Versions {
		gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
		list := &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: make([]metav1.APIResource, 0, len(version.Resources))}
		for _, resource := range version.Resources {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: resource.Resource, SingularName: resource.SingularResource, Kind: resource.ResponseKind.Kind,
				ShortNames: resource.ShortNames, Categories: resource.Categories, Verbs: metav1.Verbs{},
			})
		}
		documents[root+"/"+version.Version] = list
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if document, ok := documents[strings.TrimSuffix(req.URL.Path, "/")]; ok {
			responsewriters.WriteObjectNegotiated(serializer, negotiation.DefaultEndpointRestrictions,
				schema.GroupVersion{Version: "v1"}, w, req, http.StatusOK, document, false)
			return
		}
		err := apierrors.NewForbidden(apiregistration.Resource("apiservices"), "", errAggregation)
		responsewriters.ErrorNegotiated(err, serializer, apiregistrationv1.SchemeGroupVersion, w, req)
	})
}
