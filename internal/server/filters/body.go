package filters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// maxBody is the size in bytes up to which a body is looked at. It is upstream's limit, which
// refuses larger bodies.
const maxBody = 3 * 1024 * 1024

// WithBody looks at the bodies of requests before upstream does. It checks metadata.tenant
// against the space of the request and removes it, because upstream's types do not have the
// field. An empty value is ignored. And it refuses long lists and maps in spaces of tenants:
// upstream compares what they have before admission. Both in all formats; protobuf
// cannot have the field. Others are the serializers of types that serializer does not know.
//
// Every user who may create a review gets here. So the work for a body, and for what
// upstream makes of it, is linear in its size, and ends with the request.
func WithBody(handler http.Handler, serializer runtime.NegotiatedSerializer, others ...runtime.NegotiatedSerializer) http.Handler {
	formats := newFormats(slices.Concat([]runtime.NegotiatedSerializer{serializer}, others))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		f, ok := formats[contentType(req)]
		if !ok || !hasBody(req) {
			handler.ServeHTTP(w, req)
			return
		}
		n, err := tenant.SpaceFrom(req.Context())
		if err != nil {
			reject(w, req, serializer, apierrors.NewBadRequest(err.Error()))
			return
		}
		if f.strip == nil && !mayExceed(req, n) {
			handler.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(&contextReader{ctx: req.Context(), reader: io.LimitReader(req.Body, maxBody+1)})
		if err != nil {
			switch status := apierrors.APIStatus(nil); {
			case errors.As(err, &status): // has its own advice
			case errors.Is(err, context.DeadlineExceeded): // while the request waited
				err = apierrors.NewTimeoutError(fmt.Sprintf("reading request body: %v", err), 0)
			default:
				err = apierrors.NewBadRequest(fmt.Sprintf("reading request body: %v", err))
			}
			reject(w, req, serializer, err)
			return
		}
		checked := body
		if len(body) <= maxBody {
			if checked, err = f.apply(req.Context(), body, n); err == nil {
				err = f.checkNumbers(req.Context(), checked)
			}
			if err != nil {
				reject(w, req, serializer, err)
				return
			}
		}
		if req.ContentLength >= 0 {
			req.ContentLength += int64(len(checked) - len(body))
		}
		req.Body = roundtrip.Restored(checked, req.Body)
		handler.ServeHTTP(w, req)
	})
}

// hasBody reports whether a request may have a body that upstream decodes.
func hasBody(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	return ok && info.IsResourceRequest && req.Body != nil && req.Body != http.NoBody &&
		slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, req.Method)
}

// contentType returns the type of a request's body as its handlers read it. For a patch what
// stands before a semicolon is enough.
func contentType(req *http.Request) string {
	header := req.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil {
		mediaType, _, _ = strings.Cut(header, ";")
	}
	return mediaType
}

// mayExceed reports whether the body of a request, which is not read yet, is checked.
func mayExceed(req *http.Request, n tenant.Name) bool {
	return n.IsSpace() && (req.ContentLength < 0 || req.ContentLength >= bounds.MinBody)
}

// contextReader is a reader that ends with a context, even if its source is slow.
type contextReader struct {
	ctx    context.Context
	reader io.Reader
}

// Read implements io.Reader.
func (r *contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.reader.Read(p)
}

// format is what is done with bodies of a content type.
type format struct {
	// strip is nil if the type cannot have metadata.tenant.
	strip stripper
	// check returns an error for a body with too long lists and maps.
	check func(body []byte) error
	// numbers is the format in which numbers are looked for here. It is empty for what upstream
	// decodes by package serializer, which does so when patches are applied.
	numbers string
}

func newFormats(serializers []runtime.NegotiatedSerializer) map[string]format {
	asJSON := format{stripJSON, bounds.JSON, ""}
	return map[string]format{
		"":                                    asJSON,
		runtime.ContentTypeJSON:               asJSON,
		string(types.MergePatchType):          asJSON,
		string(types.StrategicMergePatchType): {stripJSON, bounds.StrategicMergePatch, runtime.ContentTypeJSON},
		string(types.JSONPatchType):           {stripJSONPatch, bounds.JSONPatch, ""},
		runtime.ContentTypeYAML:               {stripYAML, checkYAML, ""},
		string(types.ApplyYAMLPatchType):      {stripYAML, checkYAML, runtime.ContentTypeYAML},
		runtime.ContentTypeProtobuf:           {nil, checkProtobuf(protobufDecoders(serializers)), ""},
	}
}

// apply returns what upstream gets of a body in the space of n.
func (f format) apply(ctx context.Context, body []byte, n tenant.Name) ([]byte, error) {
	if f.strip != nil {
		var err error
		if body, err = f.strip(ctx, body, n); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	// Copies of JSON patches make more of a short body.
	if !n.IsSpace() || len(body) < bounds.MinBody && !bytes.Contains(body, []byte("from")) {
		return body, nil
	}
	err := f.check(body)
	if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
		err = apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return body, err
}

func checkYAML(body []byte) error {
	if json.Valid(body) { // JSON is YAML, too
		return bounds.JSON(body)
	}
	asJSON, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil // which is upstream's, too
	}
	return bounds.JSON(asJSON)
}

func protobufDecoders(serializers []runtime.NegotiatedSerializer) []runtime.Decoder {
	var decoders []runtime.Decoder
	for _, s := range serializers {
		if info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeProtobuf); ok {
			decoders = append(decoders, info.Serializer)
		}
	}
	return decoders
}

// checkProtobuf refuses what it cannot decode: upstream takes the kind from the URL if the
// body has none.
func checkProtobuf(decoders []runtime.Decoder) func([]byte) error {
	return func(body []byte) error {
		if err := bounds.Protobuf(bytes.TrimPrefix(body, []byte("k8s\x00"))); err != nil {
			return err
		}
		if _, err := bounds.Numbers(runtime.ContentTypeProtobuf, body); err != nil {
			return err
		}
		for _, decoder := range decoders {
			object, _, err := decoder.Decode(body, nil, nil)
			switch {
			case err == nil:
				return bounds.Value(object)
			case protobuf.IsNotMarshalable(err):
				return err
			}
		}
		return apierrors.NewBadRequest("the body is not protobuf of a kind and apiVersion that it names and that have protobuf; send JSON")
	}
}
