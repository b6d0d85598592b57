package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/tenantry/tenantry/internal/tenant"
)

// amongServers returns the documents of v3 of custom resources in the space of n, put
// together from those of its servers.
func (o *openAPI) amongServers(n tenant.Name, servers []Server, found *merged) (*handler3.OpenAPIService, error) {
	var documents []document
	for _, server := range servers {
		documents = append(documents,
			document{handler: server.Handler, path: openAPIv3Path, accept: runtime.ContentTypeJSON, excluded: server.Excluded},
			document{handler: server.Groups, path: "/apis", accept: aggregatedJSON})
	}
	service, err := o.third.get(keyOf(n, servers), documents, func(bodies [][]byte) (*handler3.OpenAPIService, error) {
		service := handler3.NewOpenAPIService()
		for _, gv := range found.versions {
			var of []Server
			for i, server := range servers {
				var root openAPIPaths
				if err := json.Unmarshal(bodies[2*i], &root); err != nil {
					return nil, fmt.Errorf("reading the paths of OpenAPI v3: %w", err)
				}
				if _, ok := root.Paths[documentName(gv)]; ok {
					of = append(of, server)
				}
			}
			document, err := together(gv, of)
			if err != nil {
				return nil, err
			}
			service.UpdateGroupVersion(documentName(gv), document)
		}
		return service, nil
	})
	if err != nil {
		return nil, fmt.Errorf("putting together OpenAPI v3 of tenant %q: %w", n, err)
	}
	return service, nil
}

func documentName(gv schema.GroupVersion) string { return "apis/" + gv.String() }

// together returns the document of a group version, put together from those of
// servers.
func together(gv schema.GroupVersion, servers []Server) (*spec3.OpenAPI, error) {
	merged := &spec3.OpenAPI{}
	for i, server := range servers {
		document := &spec3.OpenAPI{}
		err := readJSON(server.Handler, openAPIv3Path+"/"+documentName(gv), runtime.ContentTypeJSON, document)
		if err != nil {
			return nil, err
		}
		if document.Paths != nil {
			dropExcluded(document.Paths.Paths, server)
		}
		if i == 0 {
			merged = document
			continue
		}
		dropKnown(document, merged)
		if merged, err = builder.MergeSpecsV3(merged, document); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// dropKnown drops the schemas of a document that another has: those of metadata, and
// of resources that the space has defined itself.
func dropKnown(document, other *spec3.OpenAPI) {
	if document.Components == nil || other.Components == nil {
		return
	}
	for name := range document.Components.Schemas {
		if _, ok := other.Components.Schemas[name]; ok {
			delete(document.Components.Schemas, name)
		}
	}
}

// rootAmong serves the root document of custom resources in the space of n.
func (o *openAPI) rootAmong(n tenant.Name, servers []Server, r *Router) http.Handler {
	return perRequest(func(*http.Request) (http.Handler, error) {
		found, err := r.merge(n, servers)
		if err != nil {
			return nil, err
		}
		service, err := o.amongServers(n, servers, found)
		return http.HandlerFunc(service.HandleDiscovery), err
	})
}

// documentAmong returns what serves the document of a group version in the space of n.
func (o *openAPI) documentAmong(name string, n tenant.Name, servers []Server, found *merged, notFound http.Handler) (http.Handler, error) {
	if !slices.ContainsFunc(found.versions, func(gv schema.GroupVersion) bool { return name == documentName(gv) }) {
		return notFound, nil
	}
	service, err := o.amongServers(n, servers, found)
	return http.HandlerFunc(service.HandleGroupVersion), err
}
