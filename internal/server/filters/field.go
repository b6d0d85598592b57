package filters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/tenant"
)

// maxTenantBody is the size in bytes up to which a body is searched for
// metadata.tenant, upstream's limit for objects. Larger ones are passed on and
// refused there.
const maxTenantBody = 3 * 1024 * 1024

// WithTenantField checks metadata.tenant of a request body against the space of
// the request and takes it out: upstream's types do not know the field. An empty
// value is as good as none. Every format is covered in which a body can have
// the field: JSON, YAML, CBOR and the patches; protobuf has no room for it.
func WithTenantField(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !info.IsResourceRequest || req.Body == nil ||
			req.Method != http.MethodPost && req.Method != http.MethodPut && req.Method != http.MethodPatch {
			handler.ServeHTTP(w, req)
			return
		}
		contentType, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
		if err != nil && req.Header.Get("Content-Type") == "" {
			contentType, err = runtime.ContentTypeJSON, nil
		}
		strip := stripperFor(contentType)
		if err != nil || strip == nil {
			handler.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(io.LimitReader(req.Body, maxTenantBody+1))
		if err != nil {
			if !apierrors.IsRequestEntityTooLargeError(err) { // which says itself what to do
				err = apierrors.NewBadRequest(fmt.Sprintf("reading request body: %v", err))
			}
			reject(w, req, serializer, err)
			return
		}
		stripped := body
		if len(body) <= maxTenantBody && bytes.Contains(body, []byte("tenant")) {
			n, err := tenant.From(req.Context())
			if err == nil {
				stripped, err = strip(body, n)
			}
			if err != nil {
				reject(w, req, serializer, apierrors.NewBadRequest(err.Error()))
				return
			}
		}
		req.Body = &restoredBody{Reader: io.MultiReader(bytes.NewReader(stripped), req.Body), Closer: req.Body}
		if len(stripped) != len(body) && req.ContentLength >= 0 {
			req.ContentLength += int64(len(stripped) - len(body))
		}
		handler.ServeHTTP(w, req)
	})
}

type restoredBody struct {
	io.Reader
	io.Closer
}

// stripper returns body without the tenant n, or an error if it names another.
// A body it cannot read is returned as it is, for upstream to refuse.
type stripper func(body []byte, n tenant.Name) ([]byte, error)

func stripperFor(contentType string) stripper {
	switch contentType {
	case runtime.ContentTypeJSON, string(types.MergePatchType), string(types.StrategicMergePatchType):
		return stripJSON
	case runtime.ContentTypeYAML, string(types.ApplyYAMLPatchType):
		return stripYAML
	case string(types.JSONPatchType):
		return stripJSONPatch
	case runtime.ContentTypeCBOR, string(types.ApplyCBORPatchType):
		return stripCBOR
	default:
		return nil
	}
}

// check reports whether value may stand in metadata.tenant in the space of n.
func check(value any, n tenant.Name) error {
	if value == nil || value == "" || value == string(n) {
		return nil
	}
	return fmt.Errorf("metadata.tenant is %q but the request acts in tenant %q; leave the field out, or send the request to tenant %q",
		fmt.Sprint(value), n, fmt.Sprint(value))
}

func stripJSON(body []byte, n tenant.Name) ([]byte, error) {
	for {
		field := gjson.GetBytes(body, "metadata.tenant")
		if !field.Exists() {
			return body, nil
		}
		if err := check(field.Value(), n); err != nil {
			return nil, err
		}
		stripped, err := sjson.DeleteBytes(body, "metadata.tenant")
		if err != nil || len(stripped) >= len(body) {
			return body, nil
		}
		body = stripped
	}
}

func stripYAML(body []byte, n tenant.Name) ([]byte, error) {
	if looksLikeJSON(body) {
		return stripJSON(body, n)
	}
	asJSON, err := yaml.YAMLToJSON(body)
	if err != nil || !gjson.GetBytes(asJSON, "metadata.tenant").Exists() {
		return body, nil
	}
	// JSON is YAML; upstream reads it as such.
	return stripJSON(asJSON, n)
}

func looksLikeJSON(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
}

func stripCBOR(body []byte, n tenant.Name) ([]byte, error) {
	var object map[string]any
	if err := direct.Unmarshal(body, &object); err != nil {
		return body, nil
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return body, nil
	}
	value, ok := metadata["tenant"]
	if !ok {
		return body, nil
	}
	if err := check(value, n); err != nil {
		return nil, err
	}
	delete(metadata, "tenant")
	return direct.Marshal(object)
}

// stripJSONPatch removes the operations of an RFC 6902 patch on metadata.tenant,
// and the field from values that hold it.
func stripJSONPatch(body []byte, n tenant.Name) ([]byte, error) {
	var operations []map[string]json.RawMessage
	if err := json.Unmarshal(body, &operations); err != nil {
		return body, nil
	}
	kept := make([]map[string]json.RawMessage, 0, len(operations))
	for _, operation := range operations {
		var path string
		if err := json.Unmarshal(operation["path"], &path); err != nil {
			return body, nil
		}
		var field string
		switch {
		case path == "/metadata/tenant":
			if err := check(gjson.ParseBytes(operation["value"]).Value(), n); err != nil {
				return nil, err
			}
			continue
		case path == "/metadata":
			field = "tenant"
		case path == "":
			field = "metadata.tenant"
		}
		if value := gjson.GetBytes(operation["value"], field); field != "" && value.Exists() {
			if err := check(value.Value(), n); err != nil {
				return nil, err
			}
			stripped, err := sjson.DeleteBytes(operation["value"], field)
			if err != nil {
				return body, nil
			}
			operation["value"] = stripped
		}
		if from := strings.Trim(string(operation["from"]), `"`); from == "/metadata/tenant" {
			return nil, fmt.Errorf("a JSON patch cannot copy or move metadata.tenant")
		}
		kept = append(kept, operation)
	}
	return json.Marshal(kept)
}
