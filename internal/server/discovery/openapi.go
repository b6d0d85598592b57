package discovery

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-openapi/pkg/handler3"
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

// mergedPaths serves the root document of several servers, and of custom resources, as one. Earlier
// servers win, and all of them over custom resources.
func mergedPaths(custom map[string]handler3.OpenAPIV3DiscoveryGroupVersion, sources ...source) http.Handler {
	return perRequest(func(*http.Request) (http.Handler, error) {
		merged := openAPIPaths{Paths: make(map[string]json.RawMessage)}
		for path, document := range custom {
			encoded, err := json.Marshal(document)
			if err != nil {
				return nil, err
			}
			merged.Paths[path] = encoded
		}
		for _, source := range slices.Backward(sources) {
			paths, err := source.paths()
			if err != nil {
				return nil, err
			}
			maps.Copy(merged.Paths, paths)
		}
		body, err := json.Marshal(merged)
		if err != nil {
			return nil, err
		}
		tag := sha256.Sum256(body)
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", runtime.ContentTypeJSON)
			w.Header().Set("Etag", strconv.Quote(hex.EncodeToString(tag[:])))
			http.ServeContent(w, req, openAPIv3Path, time.Time{}, bytes.NewReader(body))
		}), nil
	})
}

func (s source) paths() (map[string]json.RawMessage, error) {
	var root openAPIPaths
	if err := readJSON(s.server, openAPIv3Path, runtime.ContentTypeJSON, &root); err != nil {
		return nil, err
	}
	if s.group != "" {
		prefix := "apis/" + s.group
		maps.DeleteFunc(root.Paths, func(path string, _ json.RawMessage) bool {
			return path != prefix && !strings.HasPrefix(path, prefix+"/")
		})
	}
	return root.Paths, nil
}
