package discovery

import (
	"fmt"
	"net/http"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
)

const openAPIv2Path = "/openapi/v2"

// openAPI serves the documents of OpenAPI that are put together: the one document of
// v2 that each space has, and those of v3 where several servers have something of a
// group version.
type openAPI struct {
	// builtin are the documents of v2 of what every space has, which spaces without
	// definitions share.
	builtin   func() []*spec.Swagger
	builtinV2 http.Handler

	second *documentCache[http.Handler]
	third  *documentCache[*handler3.OpenAPIService]
}

func newOpenAPI(builtin func() []*spec.Swagger) *openAPI {
	return &openAPI{
		builtin: builtin, builtinV2: serveLazily(builtin, nil),
		second: newDocumentCache[http.Handler](), third: newDocumentCache[*handler3.OpenAPIService](),
	}
}

// v2 returns what serves the document of v2 in the space of n.
func (o *openAPI) v2(n tenant.Name, servers []Server) http.Handler {
	return perRequest(func(*http.Request) (http.Handler, error) {
		documents := make([]document, len(servers))
		for i, server := range servers {
			documents[i] = document{handler: server.Handler, path: openAPIv2Path, accept: runtime.ContentTypeJSON, excluded: server.Excluded}
		}
		put, err := o.second.get(keyOf(n, servers), documents, func(bodies [][]byte) (http.Handler, error) {
			custom := make([]*spec.Swagger, len(bodies))
			for i, body := range bodies {
				custom[i] = &spec.Swagger{}
				if err := custom[i].UnmarshalJSON(body); err != nil {
					return nil, fmt.Errorf("decoding: %w", err)
				}
				if custom[i].Paths != nil {
					dropExcluded(custom[i].Paths.Paths, servers[i])
				}
			}
			return serveLazily(o.builtin, custom), nil
		})
		if err != nil {
			return nil, fmt.Errorf("putting together OpenAPI v2 of tenant %q: %w", n, err)
		}
		return put, nil
	})
}

// serveLazily serves the built-in documents and custom ones as one that is put
// together and encoded when it is first asked for. On a conflict the built-in resources
// win, then the first of the custom ones.
func serveLazily(builtin func() []*spec.Swagger, custom []*spec.Swagger) http.Handler {
	var served capturedHandler
	handler.NewOpenAPIServiceLazy(cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
		documents := append(builtin(), custom...)
		merged := documents[0]
		for _, next := range documents[1:] {
			var err error
			if merged, err = builder.MergeSpecs(merged, next); err != nil {
				return nil, "", err
			}
		}
		return merged, "once", nil
	}))).RegisterOpenAPIVersionedService(openAPIv2Path, &served)
	return served.Handler
}

// capturedHandler takes the handler that is registered with it.
type capturedHandler struct{ http.Handler }

// Handle implements common.PathHandler.
func (c *capturedHandler) Handle(_ string, handler http.Handler) { c.Handler = handler }
