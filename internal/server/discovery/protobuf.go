package discovery

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/NYTimes/gziphandler"
	"github.com/google/gnostic-models/compiler"
	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"github.com/munnerz/goautoneg"
	yaml "go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// format is how documents of a version of OpenAPI are written. Upstream's handlers make protobuf, too, but their
// library reads one document at a time in a process: small ones would wait for large ones.
type format struct {
	// mediaTypes are those that upstream's handler serves, JSON first, then the name of protobuf, and an earlier one.
	mediaTypes []string
	toProtobuf func(json []byte) ([]byte, error)
}

var (
	formatV2 = &format{mediaTypesOf("v2"), converter(openapiv2.NewDocument)}
	formatV3 = &format{mediaTypesOf("v3"), converter(openapiv3.NewDocument)}
)

func mediaTypesOf(version string) []string {
	const protobuf = "application/com.github.proto-openapi.spec."
	return []string{runtime.ContentTypeJSON, protobuf + version + ".v1.0+protobuf", protobuf + version + "@v1.0+protobuf"}
}

// converter returns what makes protobuf of JSON, as upstream does, by what reads a document.
func converter[T proto.Message](read func(*yaml.Node, *compiler.Context) (T, error)) func([]byte) ([]byte, error) {
	return func(json []byte) ([]byte, error) {
		var parsed yaml.Node
		if err := yaml.Unmarshal(json, &parsed); err != nil {
			return nil, err
		}
		root := parsed.Content[0]
		document, err := read(root, compiler.NewContextWithExtensions("$root", root, nil, nil))
		if err != nil {
			return nil, err
		}
		return proto.Marshal(document)
	}
}

// isProtobufFor reports whether a request is answered with protobuf.
func (f *format) isProtobufFor(req *http.Request) bool {
	return slices.Contains(f.mediaTypes[1:], goautoneg.Negotiate(req.Header.Get("Accept"), f.mediaTypes))
}

// withoutProtobuf returns a request that upstream's handlers answer with no protobuf: they take any type before the
// name of theirs, such as */..., which is no range of types.
func withoutProtobuf(req *http.Request) *http.Request {
	if !strings.Contains(req.Header.Get("Accept"), "proto-openapi") {
		return req
	}
	plain := *req
	plain.Header = req.Header.Clone()
	plain.Header.Set("Accept", runtime.ContentTypeJSON)
	return &plain
}

// protobufDocument is a document as protobuf.
type protobufDocument struct {
	mediaType, etag string
	modified        time.Time
	// body is nil if none can be made, as of one with control characters.
	body []byte
}

// protobufOf returns the document that a handler serves at a path as JSON as protobuf, and nil if it serves none.
func (f *format) protobufOf(document http.Handler, path string) *protobufDocument {
	w := responsewriter.NewInMemoryResponseWriter()
	document.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{"Accept": f.mediaTypes[:1]}})
	if w.RespCode() != http.StatusOK {
		return nil
	}
	p := &protobufDocument{mediaType: f.mediaTypes[1], etag: w.Header().Get("Etag")}
	p.modified, _ = http.ParseTime(w.Header().Get("Last-Modified")) // none is for no time
	p.body, _ = f.toProtobuf(w.Data())                              // whoever asks for it is told
	return p
}

// ServeHTTP implements http.Handler, as upstream's handlers do.
func (p *protobufDocument) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if p.body == nil {
		responsewriters.WriteRawJSON(http.StatusNotAcceptable, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
			Message: "the OpenAPI document cannot be written as protobuf, as with control characters in descriptions; accept application/json",
		}, w)
		return
	}
	gziphandler.GzipHandler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Set("Content-Type", p.mediaType)
		w.Header().Set("Etag", p.etag)
		http.ServeContent(w, req, "", p.modified, bytes.NewReader(p.body))
	})).ServeHTTP(w, req)
}
