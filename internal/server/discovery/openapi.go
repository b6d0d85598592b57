package discovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

const openAPIv3Path = "/openapi/v3"

// openAPIPaths is the root document of OpenAPI v3: where each group version's
// document is.
type openAPIPaths struct {
	Paths map[string]json.RawMessage `json:"paths"`
}

// source is a server whose group versions are part of a space.
type source struct {
	server http.Handler
	// group, if set, is the one group of which the space has something.
	group string
}

// mergedPaths serves the root document of several servers as one. Earlier
// servers win.
func mergedPaths(sources ...source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		merged := openAPIPaths{Paths: make(map[string]json.RawMessage)}
		for _, source := range slices.Backward(sources) {
			paths, err := source.paths()
			if err != nil {
				responsewriters.InternalError(w, req, err)
				return
			}
			maps.Copy(merged.Paths, paths)
		}
		responsewriters.WriteRawJSON(http.StatusOK, merged, w)
	})
}

func (s source) paths() (map[string]json.RawMessage, error) {
	req, err := http.NewRequest(http.MethodGet, openAPIv3Path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	response := &recorder{header: make(http.Header), status: http.StatusOK}
	s.server.ServeHTTP(response, req)
	var root openAPIPaths
	if err := json.Unmarshal(response.body.Bytes(), &root); err != nil {
		return nil, fmt.Errorf("reading the paths of OpenAPI v3 (status %d): %w", response.status, err)
	}
	if s.group != "" {
		prefix := "apis/" + s.group
		maps.DeleteFunc(root.Paths, func(path string, _ json.RawMessage) bool {
			return path != prefix && !strings.HasPrefix(path, prefix+"/")
		})
	}
	return root.Paths, nil
}
