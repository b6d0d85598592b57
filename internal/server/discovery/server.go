package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/responsewriter"

	"github.com/tenantry/tenantry/internal/tenant"
)

// CustomResources serves the resources of definitions.
type CustomResources interface {
	// In returns what serves custom resources in the space of n: its own server, that
	// of published definitions, both, or none.
	In(n tenant.Name) []Server
	// Published returns what serves a published resource to many spaces at once, nil if it is none.
	Published(resource schema.GroupResource) http.Handler
	// IsStarting reports whether definitions that the space of n has are not served yet, because the process has just
	// been started.
	IsStarting(n tenant.Name) bool
	// Changes returns a channel that gets something after each change of what serves the
	// space of n, and what to call when nobody reads it any more.
	Changes(n tenant.Name) (<-chan struct{}, func())
}

// Server serves custom resources.
type Server struct {
	// Handler serves the resources, Groups the aggregated discovery of them and of the
	// built-in groups.
	Handler, Groups http.Handler
	// Definitions returns those of the resources.
	Definitions func() []*apiextensionsv1.CustomResourceDefinition
	// Serves reports whether a resource of the space is served here; hidden ones, which
	// the space does not see, are served to the platform alone.
	Serves func(resource schema.GroupResource, hidden bool) bool
	// Shared is true for the server of published definitions, which is that of all
	// spaces.
	Shared bool
	// Excluded names the resources of the handler that the space does not see. Spaces with
	// the same value see the same.
	Excluded string
}

// isWhole reports whether one server is all that a space has, so that its documents are
// those of the space.
func isWhole(servers []Server) bool { return len(servers) == 1 && servers[0].Excluded == "" }

// sharedKey is what keys of documents begin with that spaces without a definition of their own share.
const sharedKey = "shared "

// keyOf returns what the documents put together for a space are kept by: spaces
// without a definition of their own share them.
func keyOf(n tenant.Name, servers []Server) string {
	if len(servers) == 1 && servers[0].Shared {
		return sharedKey + servers[0].Excluded
	}
	return "tenant " + string(n)
}

// answer is what a handler answered.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask asks a handler for a document, unless it still has the tag.
func ask(handler http.Handler, path, accept, tag string) (*answer, error) {
	req, err := http.NewRequest(http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	w := responsewriter.NewInMemoryResponseWriter()
	handler.ServeHTTP(w, req)
	return &answer{w.RespCode(), w.Header(), w.Data()}, nil
}

// readJSON asks a handler for a document and decodes it.
func readJSON(handler http.Handler, path, accept string, into any) error {
	response, err := ask(handler, path, accept, "")
	if err != nil {
		return err
	}
	if response.status != http.StatusOK {
		return fmt.Errorf("%s answered %d", path, response.status)
	}
	if err := json.Unmarshal(response.body, into); err != nil {
		return fmt.Errorf("decoding %s: %w", path, err)
	}
	return nil
}
