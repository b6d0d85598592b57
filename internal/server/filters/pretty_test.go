package filters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestPretty checks who gets indented answers, and that upstream does not indent them.
func TestPretty(t *testing.T) {
	const indented = "{\n  \"a\": [\n    1,\n    2,\n    {}\n  ],\n  \"b\": {}\n}"
	const answer = `{"a":[1,2,{}],"b":{}}`
	for name, tc := range map[string]struct {
		url, accept, agent, verb, subresource, contentType, encoding, connection string
		n                                                                        tenant.Name
		status                                                                   int
		want                                                                     string
	}{
		"asked for":              {url: "/x?pretty=true", want: indented},
		"asked for by one":       {url: "/x?pretty=1&limit=5", want: indented},
		"by a parameter":         {url: "/x", accept: "application/json; pretty=1;q=1, */*", want: indented},
		"by a parameter, not":    {url: "/x", accept: "application/json;pretty=0", want: answer},
		"by an odd parameter":    {url: "/x", accept: "application/json;pretty=1=", want: indented},
		"a tool, escaped":        {url: "/x?%70retty=0", agent: "curl/8", want: indented},
		"an odd list in YAML":    {url: "/x", accept: "application / yaml", status: http.StatusNotAcceptable},
		"another":                {url: "/x", accept: "application/yaml/ , application/json;q=0.1", want: answer},
		"an upgrade":             {url: "/x", accept: "application/yaml", connection: "Upgrade", status: http.StatusNotAcceptable},
		"compressed":             {url: "/x?pretty=true", encoding: "gzip", want: answer},
		"a command-line tool":    {url: "/x", agent: "curl/8", want: indented},
		"a tool that wants none": {url: "/x?pretty=false", agent: "curl/8", want: answer},
		"not asked for":          {url: "/x", agent: "kubectl", want: answer},
		"no JSON":                {url: "/x?pretty=true", contentType: "application/vnd.kubernetes.protobuf", want: answer},
		"a watch":                {url: "/x?pretty=true", verb: "watch", want: answer},
		"a log":                  {url: "/x?pretty=true", subresource: "log", want: answer},
		"in the system space":    {url: "/x?pretty=true", n: tenant.System, want: answer},
		"a list in YAML":         {url: "/x", accept: "application/yaml", status: http.StatusNotAcceptable},
		"a table in JSON":        {url: "/x", accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", want: answer},
		"deleted, in YAML":       {url: "/x", accept: "application/yaml", verb: "deletecollection", status: http.StatusNotAcceptable},
		"an object in YAML":      {url: "/x", accept: "application/yaml", verb: "get", want: answer},
		"YAML or JSON":           {url: "/x", accept: "application/yaml, application/json", want: answer},
		"YAML in the end":        {url: "/x", accept: "application/json;as=X, Application/YAML;q=0.5, */*;stream=watch", want: answer},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.verb == "" {
				tc.verb = "list"
			}
			if tc.n == "" {
				tc.n = "a"
			}
			if tc.status == 0 {
				tc.status = http.StatusOK
			}
			if tc.contentType == "" {
				tc.contentType = "application/json"
			}
			handler := WithPretty(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if tc.want == indented && (asksPretty(req) || req.Header.Get("Accept-Encoding") != "") {
					t.Errorf("upstream is asked %s, %v", req.URL, req.Header)
				}
				if accept := req.Header.Get("Accept"); tc.verb == "list" && (strings.Contains(strings.ToLower(accept), "yaml") || strings.Contains(accept, "*")) && tc.n != tenant.System {
					t.Errorf("upstream may answer in YAML: %s", accept)
				}
				w.Header().Set("Content-Type", tc.contentType)
				if tc.encoding != "" {
					w.Header().Set("Content-Encoding", tc.encoding)
				}
				_, _ = io.WriteString(w, answer)
			}), scheme.Codecs.WithoutConversion())
			req := httptest.NewRequest(http.MethodGet, tc.url, nil)
			req.Header.Set("Accept", tc.accept)
			req.Header.Set("Accept-Encoding", "gzip")
			req.Header.Set("User-Agent", tc.agent)
			req.Header.Set("Connection", tc.connection)
			ctx := request.WithRequestInfo(req.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb, Subresource: tc.subresource})
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, req.WithContext(tenant.WithSpace(ctx, tc.n)))
			if response.Code != tc.status || tc.want != "" && response.Body.String() != tc.want {
				t.Errorf("got %d %s", response.Code, response.Body)
			}
		})
	}
}

// FuzzIndenting checks that what is indented in pieces is what encoding/json makes of it.
func FuzzIndenting(f *testing.F) {
	for _, text := range []string{`{}`, `[]`, `{"a":[{},[],{"b":"c\"d\\"}],"e":1.5e3,"f":null}`, "[\"\\\\\",\"[\"]\n", `"a"`, ` [ 1 , 2 ] `} {
		f.Add(text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var want bytes.Buffer
		if json.Indent(&want, []byte(text), "", "  ") != nil {
			t.Skip()
		}
		response := httptest.NewRecorder()
		response.Header().Set("Content-Type", "application/json")
		w := &indenting{ResponseWriter: response}
		for rest := []byte(text); len(rest) > 0; {
			n := min(len(rest), 1+int(size))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if got := response.Body.String(); got != strings.TrimSpace(want.String()) {
			t.Errorf("got %q, want %q", got, want.String())
		}
	})
}

// TestIndentingTakesNoMemory checks that lines of deep values are not kept.
func TestIndentingTakesNoMemory(t *testing.T) {
	deep := []byte(strings.Repeat("[", 200) + strings.Repeat("0,", 100_000) + "0" + strings.Repeat("]", 200))
	if n := allocated(func() {
		w := &indenting{ResponseWriter: discarding{http.Header{"Content-Type": {"application/json"}}}}
		if _, err := w.Write(deep); err != nil {
			t.Error(err)
		}
	}); n > 1<<20 {
		t.Errorf("%d bytes for 40 MB of lines", n)
	}
}

// TestLongAccept checks that a long header is written once.
func TestLongAccept(t *testing.T) {
	var accept strings.Builder
	accept.WriteString("application/json")
	for i := range 20_000 {
		fmt.Fprintf(&accept, ";p%d=1", i)
	}
	accept.WriteString(",*/*")
	req := httptest.NewRequest(http.MethodGet, "/x", nil)
	req.Header.Set("Accept", accept.String())
	if n := allocated(func() {
		if _, ok := withoutYAML(req); !ok {
			t.Error("it accepts JSON")
		}
	}); n > 100<<20 {
		t.Errorf("%d bytes for a header of %d", n, accept.Len())
	}
}

// discarding is a response that nobody reads.
type discarding struct{ header http.Header }

func (d discarding) Header() http.Header         { return d.header }
func (d discarding) Write(p []byte) (int, error) { return len(p), nil }
func (d discarding) WriteHeader(int)             {}

// FuzzAccept checks that upstream answers in nothing that it is not to, and never indents.
func FuzzAccept(f *testing.F) {
	for _, accept := range []string{"", "*/*", "*", "application/*", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml", "a/b;pretty=1=;q=2", "application / yaml", "application/yaml/"} {
		f.Add(accept, "pretty=1", "curl/8")
	}
	f.Fuzz(func(t *testing.T, accept, query, agent string) {
		req := httptest.NewRequest(http.MethodGet, "/x", nil)
		req.URL.RawQuery = query
		req.Header.Set("Accept", accept)
		req.Header.Set("User-Agent", agent)
		req, ok := withoutYAML(req)
		if !ok {
			return
		}
		if mayIndent(req) {
			req = plain(req)
		}
		for _, info := range []negotiation.EndpointRestrictions{negotiation.DefaultEndpointRestrictions, anything{}} {
			media, chosen, err := negotiation.NegotiateOutputMediaType(req, scheme.Codecs.WithoutConversion(), info)
			if err == nil && (media.Accepted.MediaType == runtime.ContentTypeYAML || chosen.PrettySerializer != nil && chosen.Serializer == chosen.PrettySerializer) {
				t.Errorf("%s from %q, %q, %q", media.Accepted.MediaType, accept, query, agent)
			}
		}
	})
}

// anything is an endpoint with answers of all kinds.
type anything struct{}

func (anything) AllowsMediaTypeTransform(string, string, *schema.GroupVersionKind) bool { return true }
func (anything) AllowsServerVersion(string) bool                                        { return true }
func (anything) AllowsStreamSchema(string) bool                                         { return true }
