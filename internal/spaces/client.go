package spaces

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/internal/process/shares"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/text"
)

// NewClientConfig returns a config for clients (typed, dynamic and metadata)
// that read and write the flattened view. config is that of a system
// administrator and names the server's plain URL.
//
// A request goes to the space of the names in its path, field selector or body,
// with ordinary names. A request that names no space goes to every space if it is a list
// or watch, and to the system space otherwise. The names in responses are flattened.
// Names that a controller writes into texts for people (events, conditions) become
// ordinary, too. Bodies are JSON, and requests are not rate limited. All but watches
// must be answered within about a minute, in a limited number of bytes.
//
// Metadata clients are made with NewMetadataClient.
func NewClientConfig(config *rest.Config, options ...Option) *rest.Config {
	return newClientConfig(config, false, options)
}

// NewIdentityClientConfig is NewClientConfig for code that joins objects by UID and looks
// owners up without knowing whether they are namespaced: the garbage collector. The names
// of all objects and owners, and all UIDs, are flattened, so that an object of one space is
// never taken for the owner of one in another. The client reports that an object does not
// exist only if the server says so about this very object.
func NewIdentityClientConfig(config *rest.Config, options ...Option) *rest.Config {
	return newClientConfig(config, true, options)
}

func newClientConfig(config *rest.Config, identities bool, options []Option) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.RateLimiter = nil
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		t := &flatteningTransport{next: next, identities: identities, limits: defaultLimits}
		for _, option := range options {
			option(t)
		}
		return t
	})
	return config
}

type flatteningTransport struct {
	next       http.RoundTripper
	identities bool
	limits     limits
	// workers is nil without WithWorkers.
	workers *shares.Shares[tenant.Name]
	ownerOf func(namespace tenant.Flat, pod string) types.UID
	bursts  *Bursts
	// hurries is whether requests are not tried again by clients.
	hurries bool
	// shortens is whether what is written has short messages.
	shortens bool
	// inTurn and meter are nil without WithTurns and WithMeter.
	inTurn func(method string, n tenant.Name) bool
	meter  func(tenant.Name, time.Duration)
}

// RoundTrip implements http.RoundTripper.
func (t *flatteningTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	r, err := routeOf(req.URL.Path, req.URL.Query())
	if err == nil && r.resource != nil {
		req, err = t.request(req, &r)
	}
	if err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("mapping %s %s to a space: %w", req.Method, req.URL.Path, err)
	}
	exchange := func(req *http.Request) (*http.Response, error) {
		response, err := t.send(req, &r)
		if err == nil && t.hurries && r.space.IsSpace() {
			// The client would hold the worker for ten times as long and retry by itself. Upstream answers so where a
			// storage of the tenant cannot be read.
			response.Header.Del("Retry-After")
		}
		if err != nil || r.resource == nil {
			return response, err
		}
		return t.response(response, &r)
	}
	shared := t.sharesFor(&r)
	if shared == nil {
		return exchange(req)
	}
	return sendShared(shared, req, r.space, r.owner, func(req *http.Request) (*http.Response, error) {
		if t.inTurn != nil && !t.inTurn(req.Method, r.space) {
			return nil, ErrNotInTurn
		}
		leave, err := t.bursts.enter(req.Context(), r.space, req.ContentLength, r.owner == "")
		if err != nil {
			return nil, err
		}
		defer leave()
		if t.meter != nil {
			began := time.Now()
			defer func() { t.meter(r.space, time.Since(began)) }()
		}
		return exchange(req)
	})
}

func (t *flatteningTransport) send(req *http.Request, r *route) (*http.Response, error) {
	switch {
	case isWatch(r.query):
		return t.next.RoundTrip(req)
	case r.collection || r.resource == nil:
		return t.limits.roundTrip(t.next, req, t.limits.list)
	default:
		return t.limits.roundTrip(t.next, req, t.limits.object)
	}
}

// request returns req as it is in its space.
func (t *flatteningTransport) request(req *http.Request, r *route) (*http.Request, error) {
	body, err := t.requestBody(req, r)
	if err != nil {
		return req, err
	}
	if req.Method == http.MethodGet && r.collection && !r.named {
		r.space, r.everywhere = "", true
	}
	r.owner = t.itemOf(req.Method, r, body)
	mapped := req.Clone(req.Context())
	if body != nil {
		mapped.Body = io.NopCloser(bytes.NewReader(body))
		mapped.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		mapped.ContentLength = int64(len(body))
	}
	mapped.URL.RawQuery = r.query.Encode()
	setPath(mapped, r.scope(), r.path)
	if accept := mapped.Header.Get("Accept"); accept != "" {
		mapped.Header.Set("Accept", onlyJSON(accept))
	}
	return mapped, nil
}

// requestBody returns the body of req with ordinary names and takes its space
// where the path names none.
func (t *flatteningTransport) requestBody(req *http.Request, r *route) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	if len(body) == 0 || !mayHoldFlattened(body) && (!t.shortens || len(body) <= maxMessage) {
		return body, nil
	}
	contentType := runtime.ContentTypeJSON // client-go's scale client names none
	if header := req.Header.Get("Content-Type"); header != "" {
		if contentType, _, err = mime.ParseMediaType(header); err != nil {
			return nil, fmt.Errorf("reading the content type: %w", err)
		}
	}
	w := &rewriter{identities: t.identities, unflatten: true, shortens: t.shortens}
	if r.named && !r.ofClusterScoped() {
		w.space = r.space
	}
	switch {
	case contentType == string(types.JSONPatchType):
		body, err = w.rewritePatch(body)
	case strings.HasSuffix(contentType, "json"):
		body, err = w.rewrite(body, objectRules)
	case strings.HasSuffix(contentType, "yaml"):
		if body, err = yaml.YAMLToJSON(body); err == nil {
			body, err = w.rewrite(body, objectRules)
		}
	case mayHoldFlattened(body):
		err = fmt.Errorf("content type %q is not supported", contentType)
	}
	if w.found != "" {
		r.space = w.found
	}
	return body, err
}

// mayHoldFlattened reports whether a body has a separator in it, as it is or as
// JSON or a URL in a text may escape it.
func mayHoldFlattened(body []byte) bool {
	return bytes.Contains(body, []byte(tenant.FlatSeparator)) || bytes.Contains(body, []byte(`\u007`)) || bytes.Contains(body, []byte("%7"))
}

// onlyJSON removes the formats that the transport does not rewrite from an Accept header.
func onlyJSON(accept string) string {
	var accepted []string
	for clause := range strings.SplitSeq(accept, ",") {
		if strings.HasPrefix(strings.TrimSpace(clause), runtime.ContentTypeJSON) {
			accepted = append(accepted, clause)
		}
	}
	if len(accepted) == 0 {
		return runtime.ContentTypeJSON
	}
	return strings.Join(accepted, ",")
}

// response flattens the objects of a response to r.
func (t *flatteningTransport) response(response *http.Response, r *route) (*http.Response, error) {
	w := &rewriter{identities: t.identities, space: r.space, refused: response.StatusCode >= http.StatusBadRequest}
	contentType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode == http.StatusNotFound:
		return t.notFound(response, r)
	case response.StatusCode == http.StatusSwitchingProtocols:
		return response, nil
	case isWatch(r.query) && response.StatusCode == http.StatusOK && contentType == runtime.ContentTypeJSON:
		response.Body = roundtrip.Events(response.Body, func(event []byte) ([]byte, error) {
			flattened, err := w.rewrite(event, eventRules)
			if err != nil {
				return nil, fmt.Errorf("flattening a watch event: %w", err)
			}
			return append(flattened, '\n'), nil
		})
		return response, nil
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	if contentType == runtime.ContentTypeJSON {
		if body, err = w.rewrite(body, objectRules); err != nil {
			return nil, fmt.Errorf("flattening the response: %w", err)
		}
	}
	setBody(response, body)
	return response, nil
}

func setBody(response *http.Response, body []byte) {
	response.Body = io.NopCloser(bytes.NewReader(body))
	response.ContentLength = int64(len(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// notFound distinguishes an object that does not exist from a resource that the
// space does not have: a resource of one space's definitions is unknown in another. Whoever
// asks for metadata, of resources of any space, finds its collections empty there, and nothing
// is known about its objects.
func (t *flatteningTransport) notFound(response *http.Response, r *route) (*http.Response, error) {
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the response: %w", err)
	}
	setBody(response, body)
	var status metav1.Status
	known := json.Unmarshal(body, &status) == nil && status.Details != nil && status.Details.Kind != ""
	whole := status.Message
	status.Message = text.Cut(whole, maxMessage)
	switch {
	case !known && r.collection && !r.everywhere && response.Request.Method == http.MethodDelete:
		return answered(response, http.StatusOK, metav1.Status{TypeMeta: statusType, Status: metav1.StatusSuccess})
	case !known && r.collection && !r.everywhere && asksMetadata(response.Request) && !isWatch(r.query):
		return answered(response, http.StatusOK, metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: metav1.SchemeGroupVersion.String()},
			Items:    []metav1.PartialObjectMetadata{},
		})
	case t.identities && !r.collection && !(known && status.Details.Kind == r.resource[0] && status.Details.Name == r.resource[1]):
		return answered(response, http.StatusServiceUnavailable, metav1.Status{
			TypeMeta: statusType,
			Status:   metav1.StatusFailure,
			Reason:   metav1.StatusReasonServiceUnavailable,
			Code:     http.StatusServiceUnavailable,
			Message:  fmt.Sprintf("it is not known whether %s exists: %s", strings.Join(r.resource, "/"), status.Message),
		})
	case status.Message != whole:
		return answered(response, http.StatusNotFound, status)
	}
	return response, nil
}

// asksMetadata reports whether a request is for the metadata of objects alone.
func asksMetadata(req *http.Request) bool {
	return req.Method == http.MethodGet && strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadataList")
}

var statusType = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}

func isWatch(query url.Values) bool {
	watching, _ := strconv.ParseBool(query.Get("watch"))
	return watching
}

// answered replaces the answer of a response.
func answered(response *http.Response, code int, answer any) (*http.Response, error) {
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	response.StatusCode = code
	response.Status = fmt.Sprintf("%d %s", code, http.StatusText(code))
	response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	setBody(response, body)
	return response, nil
}
