package crd

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// Content is what is in the body of a custom resource or a patch of one.
type Content struct {
	// Values are those in lists and maps, Objects the maps among them.
	Values, Objects int
}

// withContent refuses bodies whose content does not fit the definition of their resource.
// Admission sees an object when it is decoded and has its defaults: a body of 3 MB can have
// a million values, each of which gets some.
func withContent(handler http.Handler, definitions listers.CustomResourceDefinitionLister,
	fits func(Content, *apiextensionsv1.CustomResourceDefinition) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !info.IsResourceRequest || req.Body == nil ||
			req.Method != http.MethodPost && req.Method != http.MethodPut && req.Method != http.MethodPatch {
			handler.ServeHTTP(w, req)
			return
		}
		group := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		definition, missing := definitions.Get(info.Resource + "." + info.APIGroup) // if it is missing, upstream does not find it either
		body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
		if err == nil && len(body) <= maxBody && missing == nil {
			err = fits(contentOf(req.Header.Get("Content-Type"), body), definition)
		}
		if err != nil {
			responsewriters.ErrorNegotiated(err, apiserver.Codecs, group, w, req)
			return
		}
		if missing == nil {
			req = req.WithContext(storage.WithDefinition(req.Context(), storage.Definition{
				ResourceVersion: definition.ResourceVersion, Changed: changedSince(definition, definitions),
			}))
		}
		req.Body = roundtrip.Restored(body, req.Body)
		handler.ServeHTTP(w, req)
	})
}

// changedSince returns what reports whether a definition has changed.
func changedSince(was *apiextensionsv1.CustomResourceDefinition, definitions listers.CustomResourceDefinitionLister) func() bool {
	return func() bool {
		is, err := definitions.Get(was.Name)
		return err != nil || is.UID != was.UID || is.Generation != was.Generation
	}
}

// maxBody is upstream's limit for bodies, which refuses longer ones.
const maxBody = 3 << 20

// contentOf counts what is in JSON or YAML. What cannot be read has nothing: upstream refuses
// it.
func contentOf(contentType string, body []byte) Content {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err == nil && (mediaType == runtime.ContentTypeYAML || mediaType == string(types.ApplyYAMLPatchType)) && !json.Valid(body) {
		body, _ = yaml.YAMLToJSON(body)
	}
	values, objects, _ := bounds.Count(body)
	return Content{values, objects}
}
