package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// aggregatedJSON is the media type of aggregated discovery.
const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// readGroups asks a handler of aggregated discovery for its groups, at /apis or /api.
func readGroups(handler http.Handler, path string) ([]apidiscoveryv2.APIGroupDiscovery, error) {
	response, err := ask(handler, path, aggregatedJSON, "")
	if err != nil {
		return nil, err
	}
	if response.status != http.StatusOK {
		return nil, fmt.Errorf("aggregated discovery answered %d", response.status)
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(response.body, &list); err != nil {
		return nil, fmt.Errorf("decoding aggregated discovery: %w", err)
	}
	return list.Items, nil
}

// groupList serves the list of groups in its old form.
func groupList(aggregated http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		groups, err := readGroups(aggregated, "/apis")
		if err != nil {
			responsewriters.InternalError(w, req, err)
			return
		}
		list := &metav1.APIGroupList{Groups: make([]metav1.APIGroup, 0, len(groups))}
		for i := range groups {
			list.Groups = append(list.Groups, toGroup(&groups[i]))
		}
		responsewriters.WriteObjectNegotiated(serializer, negotiation.DefaultEndpointRestrictions,
			schema.GroupVersion{Version: "v1"}, w, req, http.StatusOK, list, false)
	})
}

func toGroup(discovered *apidiscoveryv2.APIGroupDiscovery) metav1.APIGroup {
	group := metav1.APIGroup{Name: discovered.Name}
	for _, version := range discovered.Versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
			GroupVersion: schema.GroupVersion{Group: discovered.Name, Version: version.Version}.String(),
			Version:      version.Version,
		})
	}
	if len(group.Versions) > 0 {
		group.PreferredVersion = group.Versions[0]
	}
	return group
}
