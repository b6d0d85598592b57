package discovery

import (
	"errors"
	"net/http"
	"strconv"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	clientdiscovery "k8s.io/client-go/discovery"
)

// aggregatedJSON is the media type of aggregated discovery.
const aggregatedJSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// readGroups asks a handler of aggregated discovery for its groups, at /apis or /api.
func readGroups(handler http.Handler, path string) ([]apidiscoveryv2.APIGroupDiscovery, error) {
	var list apidiscoveryv2.APIGroupDiscoveryList
	err := readJSON(handler, path, aggregatedJSON, &list)
	return list.Items, err
}

// groupList serves groups in both forms.
func (r *Router) groupList(aggregatedGroups http.Handler) http.Handler {
	old := perRequest(func(*http.Request) (http.Handler, error) {
		groups, err := readGroups(aggregatedGroups, "/apis")
		if err != nil {
			return nil, err
		}
		list, _, _ := clientdiscovery.SplitGroupsAndResources(apidiscoveryv2.APIGroupDiscoveryList{Items: groups})
		return r.serveObject(list), nil
	})
	return aggregated.WrapAggregatedDiscoveryToHandler(old, aggregatedGroups, aggregatedGroups)
}

// serveObject serves an object as the client wants it.
func (r *Router) serveObject(obj runtime.Object) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		responsewriters.WriteObjectNegotiated(r.Serializer, negotiation.DefaultEndpointRestrictions,
			schema.GroupVersion{Version: "v1"}, w, req, http.StatusOK, obj, false)
	})
}

// perRequest serves each request by a handler that is made for it.
func perRequest(together func(req *http.Request) (http.Handler, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler, err := together(req)
		if later, is := errors.AsType[*apierrors.StatusError](err); is {
			seconds, _ := apierrors.SuggestsClientDelay(later)
			w.Header().Set("Retry-After", strconv.Itoa(seconds))
			responsewriters.WriteRawJSON(int(later.ErrStatus.Code), responsewriters.ErrorToAPIStatus(later), w)
			return
		}
		if err != nil {
			responsewriters.InternalError(w, req, err)
			return
		}
		handler.ServeHTTP(w, req)
	})
}
