package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/tenantry/tenantry/internal/tenant"
)

// amongServers returns the documents of v3 of custom resources in the space of n, put
// together from those of its servers.
func (o *openAPI) amongServers(n tenant.Name, servers []Server, r *Router) (*handler3.OpenAPIService, error) {
	found, err := r.merge(n, servers)
	if err != nil {
		return nil, err
	}
	var documents []document
	for _, server := range servers {
		documents = append(documents,
			document{handler: server.Handler, path: openAPIv3Path, accept: runtime.ContentTypeJSON, unseen: server.Unseen},
			document{handler: server.Groups, path: "/apis", accept: aggregatedJSON})
	}
	return o.third.get(keyOf(n, servers), documents, func(bodies [][]byte) (*handler3.OpenAPIService, error) {
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
			document, err := documentAmong(gv, of)
			if err != nil {
				return nil, err
			}
			service.UpdateGroupVersion(documentName(gv), document)
		}
		return service, nil
	})
}

func documentName(gv schema.GroupVersion) string { return "apis/" + gv.String() }

// documentAmong returns the document of a group version, put together from those of
// servers.
func documentAmong(gv schema.GroupVersion, servers []Server) (*spec3.OpenAPI, error) {
	together := &spec3.OpenAPI{}
	for i, server := range servers {
		response, err := ask(server.Handler, openAPIv3Path+"/"+documentName(gv), runtime.ContentTypeJSON, "")
		if err != nil {
			return nil, err
		}
		document := &spec3.OpenAPI{}
		if err := json.Unmarshal(response.body, document); err != nil {
			return nil, fmt.Errorf("reading OpenAPI v3 of %s (status %d): %w", gv, response.status, err)
		}
		if document.Paths != nil {
			dropUnseen(document.Paths.Paths, server)
		}
		if i == 0 {
			together = document
			continue
		}
		dropKnown(document, together)
		if together, err = builder.MergeSpecsV3(together, document); err != nil {
			return nil, err
		}
	}
	return together, nil
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
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		service, err := o.amongServers(n, servers, r)
		if err != nil {
			responsewriters.InternalError(w, req, fmt.Errorf("putting together OpenAPI v3 of tenant %q: %w", n, err))
			return
		}
		service.HandleDiscovery(w, req)
	})
}

// versionsAmong serves the documents of group versions in the space of n.
func (o *openAPI) versionsAmong(n tenant.Name, servers []Server, r *Router, w http.ResponseWriter, req *http.Request) {
	found, err := r.merge(n, servers)
	if err == nil && !slices.ContainsFunc(found.versions, func(gv schema.GroupVersion) bool {
		return req.URL.Path == openAPIv3Path+"/"+documentName(gv)
	}) {
		r.NotFound.ServeHTTP(w, req)
		return
	}
	var service *handler3.OpenAPIService
	if err == nil {
		service, err = o.amongServers(n, servers, r)
	}
	if err != nil {
		responsewriters.InternalError(w, req, fmt.Errorf("putting together OpenAPI v3 of tenant %q: %w", n, err))
		return
	}
	service.HandleGroupVersion(w, req)
}
