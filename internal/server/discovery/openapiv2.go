package discovery

import (
	"net/http"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
)

const openAPIv2Path = "/openapi/v2"

// openAPI serves the documents of OpenAPI that are made of definitions when somebody asks: the one document of
// v2 that each space has, and those of v3 of its custom resources.
type openAPI struct {
	// builtin are the documents of v2 of what every space has, which spaces without
	// definitions share.
	builtin   func() []*spec.Swagger
	builtinV2 http.Handler

	// v2 are the documents of spaces, and v3 those of each of their group versions.
	v2, v3 *builtCache
}

func newOpenAPI(builtin func() []*spec.Swagger) *openAPI {
	v2, v3 := newBuiltCaches()
	return &openAPI{builtin: builtin, builtinV2: serveLazily(builtin, nil), v2: v2, v3: v3}
}

// documentV2 returns what serves the document of v2 in the space of n.
func (o *openAPI) documentV2(n tenant.Name, servers []Server) http.Handler {
	return perRequest(func(req *http.Request) (http.Handler, error) {
		space := keyOf(n, servers)
		return o.v2.getOrCreate(req, space, space, func() state {
			shown := shownOf(servers)
			bytes := func() int64 { return 2*bytesOf(shown) + servedBytesV2*servedBy(shown) } // once built, and once put together and encoded
			return state{tagOf(shown), bytes, func() (http.Handler, error) { return serveLazily(o.builtin, buildV2(shown)), nil }}
		})
	})
}

// buildV2 returns the documents of definitions, as upstream's server of definitions has them: without those of which
// none can be made.
func buildV2(definitions []*apiextensionsv1.CustomResourceDefinition) (documents []*spec.Swagger) {
	for _, d := range definitions {
		for _, v := range d.Spec.Versions {
			if !v.Served {
				continue
			}
			document, err := builder.BuildOpenAPIV2(d, v.Name, buildOptions(true))
			if err != nil {
				klog.ErrorS(err, "No OpenAPI v2 can be made of a version of a definition", "definition", d.Name, "version", v.Name)
				continue
			}
			document.Definitions = handler.PruneDefaults(document.Definitions)
			documents = append(documents, document)
		}
	}
	return documents
}

// serveLazily serves the built-in documents and custom ones as one that is put
// together and encoded when it is first asked for. On a conflict the built-in resources
// win, then the first of the custom ones.
func serveLazily(builtin func() []*spec.Swagger, custom []*spec.Swagger) http.Handler {
	var served capturedHandler
	handler.NewOpenAPIServiceLazy(cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
		documents := builtin()
		merged := documents[0]
		for _, next := range documents[1:] {
			var err error
			if merged, err = builder.MergeSpecs(merged, next); err != nil {
				return nil, "", err
			}
		}
		slices.Reverse(custom) // the last one wins
		merged, err := builder.MergeSpecs(merged, custom...)
		return merged, "once", err
	}))).RegisterOpenAPIVersionedService(openAPIv2Path, &served)
	return served.Handler
}

// capturedHandler takes the handler that is registered with it.
type capturedHandler struct{ http.Handler }

// Handle implements common.PathHandler.
func (c *capturedHandler) Handle(_ string, handler http.Handler) { c.Handler = handler }
