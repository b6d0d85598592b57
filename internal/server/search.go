package server

import (
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/search/rights"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// newSearch returns the search of the server, nil if it has none. core serves the core group.
func (a *assembly) newSearch(core http.Handler) (*search.Service, error) {
	if a.opts.search == nil {
		return nil, nil // searches are not served
	}
	config := search.Config{
		Options:    *a.opts.search,
		Stream:     func() (*storage.Stream, error) { return a.spaces.Ranges.NewStream(decodeStored) },
		Rights:     rights.Config{Order: a.modes.Order, ABAC: a.modes.ABAC()},
		Listable:   func() ([]rights.Resource, error) { return a.listable(core) },
		Authorizer: a.policy.authorizer,
		Serializer: a.generic.Serializer,
	}
	if a.opts.SearchOnly { // the server that asks has the authorizer
		config.Authorizer = nil
	}
	service, err := search.New(config)
	if err == nil && !config.Remote.Enabled() {
		service.ServeMetrics()
	}
	return service, err
}

// storedAs are the resources whose objects are stored as those of another one.
var storedAs = map[schema.GroupResource]schema.GroupResource{
	{Group: eventsv1.GroupName, Resource: "events"}:                       {Group: corev1.GroupName, Resource: "events"},
	{Group: corev1.GroupName, Resource: tenantregistry.Resource.Resource}: tenantregistry.Resource,
}

// listable returns the built-in resources whose objects are stored and can be listed.
func (a *assembly) listable(core http.Handler) ([]rights.Resource, error) {
	served, err := a.groups.Listable(core)
	if err != nil {
		return nil, err
	}
	var resources []rights.Resource
	at := map[schema.GroupResource]int{}
	for _, resource := range served {
		stored := resource
		if other, ok := storedAs[resource]; ok {
			stored = other
		}
		if !a.spaces.Ranges.Stores(stored) {
			continue // it is made when it is asked for, such as the health of components
		}
		i, known := at[stored]
		if !known {
			i = len(resources)
			at[stored], resources = i, append(resources, rights.Resource{Stored: stored})
		}
		resources[i].Served = append(resources[i].Served, resource)
	}
	return resources, nil
}

// decodeStored decodes an object in the version in which it is stored, definitions in their present one.
func decodeStored(data []byte, custom bool) (runtime.Object, error) {
	if custom {
		object := &unstructured.Unstructured{}
		return object, object.UnmarshalJSON(data)
	}
	for _, codecs := range []serializer.CodecFactory{legacyscheme.Codecs, apiextensionsapiserver.Codecs, aggregatorscheme.Codecs} {
		object, kind, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading a stored object: %w", err)
		}
		if kind.Group == apiextensions.GroupName {
			if object, err = presentDefinition(object); err != nil {
				return nil, err
			}
		}
		object.GetObjectKind().SetGroupVersionKind(*kind)
		return object, nil
	}
	return nil, errors.New("no such kind is known")
}

func presentDefinition(stored runtime.Object) (runtime.Object, error) {
	present, err := apiextensionsapiserver.Scheme.ConvertToVersion(stored, apiextensions.SchemeGroupVersion)
	if err == nil {
		present, err = apiextensionsapiserver.Scheme.ConvertToVersion(present, apiextensionsv1.SchemeGroupVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("converting a stored definition: %w", err)
	}
	return present, nil
}
