package discovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// openAPIPaths is the root document of OpenAPI v3: where each group version's
// document is.
type openAPIPaths struct {
	Paths map[string]json.RawMessage `json:"paths"`
}

// mergedPaths serves the root document of several servers as one. Earlier
// servers win.
func mergedPaths(servers ...http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		merged := openAPIPaths{Paths: make(map[string]json.RawMessage)}
		for i := len(servers) - 1; i >= 0; i-- {
			paths, err := readPaths(servers[i])
			if err != nil {
				responsewriters.InternalError(w, req, err)
				return
			}
			maps.Copy(merged.Paths, paths)
		}
		responsewriters.WriteRawJSON(http.StatusOK, merged, w)
	})
}

func readPaths(server http.Handler) (map[string]json.RawMessage, error) {
	req, err := http.NewRequest(http.MethodGet, "/openapi/v3", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	response := &recorder{header: make(http.Header), status: http.StatusOK}
	server.ServeHTTP(response, req)
	var root openAPIPaths
	if err := json.Unmarshal(response.body.Bytes(), &root); err != nil {
		return nil, fmt.Errorf("reading the paths of OpenAPI v3 (status %d): %w", response.status, err)
	}
	return root.Paths, nil
}
