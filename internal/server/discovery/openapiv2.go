package discovery

import (
	"fmt"
	"net/http"

	"golang.org/x/sync/singleflight"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	openAPIv2Path = "/openapi/v2"
	// keptDocuments is how many documents of OpenAPI v2 are kept, of as many
	// spaces with custom resources. One is some five megabytes once it has been
	// asked for; the others are put together again.
	keptDocuments = 16
)

// openAPIv2 serves the one document of OpenAPI v2 that each space has: that of
// the built-in resources, which all spaces without definitions share, and with it
// what the space defines.
type openAPIv2 struct {
	// builtin are the documents of what every space has.
	builtin func() []*spec.Swagger
	shared  http.Handler

	documents *lru.Cache // tenant.Name -> document
	merging   singleflight.Group
}

// document is the document of a space whose definitions had the given ETag.
type document struct {
	etag    string
	handler http.Handler
}

func newOpenAPIv2(builtin func() []*spec.Swagger) *openAPIv2 {
	return &openAPIv2{builtin: builtin, shared: serveLazily(builtin, nil), documents: lru.New(keptDocuments)}
}

// of returns what serves the document of the space of n, whose definitions own
// serves.
func (o *openAPIv2) of(n tenant.Name, own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		merged, err, _ := o.merging.Do(string(n), func() (any, error) { return o.merge(n, own) })
		if err != nil {
			responsewriters.InternalError(w, req, fmt.Errorf("putting together OpenAPI v2 of tenant %q: %w", n, err))
			return
		}
		merged.(http.Handler).ServeHTTP(w, req)
	})
}

// merge returns what serves the document of n: the kept one, unless the space's
// definitions have changed since.
func (o *openAPIv2) merge(n tenant.Name, own http.Handler) (http.Handler, error) {
	var kept document
	if found, ok := o.documents.Get(n); ok {
		kept = found.(document)
	}
	req, err := http.NewRequest(http.MethodGet, openAPIv2Path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if kept.etag != "" {
		req.Header.Set("If-None-Match", kept.etag)
	}
	response := &recorder{header: make(http.Header), status: http.StatusOK}
	own.ServeHTTP(response, req)
	switch {
	case response.status == http.StatusNotModified && kept.handler != nil:
		return kept.handler, nil
	case response.status != http.StatusOK:
		return nil, fmt.Errorf("the server of the definitions answered %d", response.status)
	}
	custom := &spec.Swagger{}
	if err := custom.UnmarshalJSON(response.body.Bytes()); err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	fresh := document{etag: response.header.Get("Etag"), handler: serveLazily(o.builtin, custom)}
	o.documents.Add(n, fresh)
	return fresh.handler, nil
}

// serveLazily serves the built-in documents and custom, if it is not nil, as one
// that is put together and encoded when it is first asked for. On a conflict the
// built-in resources win.
func serveLazily(builtin func() []*spec.Swagger, custom *spec.Swagger) http.Handler {
	var served capturedHandler
	handler.NewOpenAPIServiceLazy(cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
		documents := builtin()
		if custom != nil {
			documents = append(documents, custom)
		}
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
