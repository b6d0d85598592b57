package discovery

import (
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

const cacheControl = "Cache-Control"

// private returns a writer of documents that a cache of several clients must not keep. Upstream says of aggregated
// discovery and of OpenAPI documents that it may, because all clients of a server get the same. Here the credentials
// say whose they are.
func private(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
	switch path := strings.TrimSuffix(req.URL.Path, "/"); {
	case path == "/api", path == "/apis", strings.HasPrefix(path, "/openapi/"):
		return roundtrip.OnHeader(w, func(int) {
			if value, is := strings.CutPrefix(w.Header().Get(cacheControl), "public"); is {
				w.Header().Set(cacheControl, "private"+value)
			}
		})
	default:
		return w
	}
}
