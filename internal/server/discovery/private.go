package discovery

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

const cacheControl = "Cache-Control"

// private returns a writer of documents that a cache of several clients must not keep. Upstream says of aggregated discovery and of OpenAPI
// documents that it may, because all clients of a server get the same. Here the credentials say whose they are.
func private(w http.ResponseWriter, req *http.Request) http.ResponseWriter {
	switch path := strings.TrimSuffix(req.URL.Path, "/"); {
	case path == "/api", path == "/apis", strings.HasPrefix(path, "/openapi/"):
		return responsewriter.WrapForHTTP1Or2(&privateWriter{ResponseWriter: w})
	default:
		return w
	}
}

type privateWriter struct {
	http.ResponseWriter
	begun bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (w *privateWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *privateWriter) WriteHeader(code int) {
	if value, is := strings.CutPrefix(w.Header().Get(cacheControl), "public"); is && !w.begun {
		w.Header().Set(cacheControl, "private"+value)
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *privateWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
