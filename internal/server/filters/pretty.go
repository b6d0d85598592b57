package filters

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tenantry/tenantry/internal/tenant"
)

// WithPretty indents answers in spaces of tenants while they are written. Upstream indents a
// whole list in memory, in which each value of deep objects has a line with hundreds of spaces: 23 MB
// of objects took 10 GB. For the same reason, lists there are not written in YAML.
func WithPretty(handler http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		n, err := tenant.SpaceFrom(req.Context())
		if !ok || !info.IsResourceRequest || err != nil || !n.IsSpace() || isStream(info) {
			handler.ServeHTTP(w, req)
			return
		}
		if slices.Contains([]string{"list", "deletecollection"}, info.Verb) {
			if req, ok = withoutYAML(req); !ok {
				reject(w, req, serializer, errYAMLList)
				return
			}
		}
		if mayIndent(req) {
			asked := asksPretty(req)
			if req = plain(req); asked {
				req.Header.Del("Accept-Encoding")
				w = responsewriter.WrapForHTTP1Or2(&indenting{ResponseWriter: w})
			}
		}
		handler.ServeHTTP(w, req)
	})
}

var errYAMLList = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
	Message: "lists in a space are not written in YAML; accept application/json",
}}

// isStream reports whether the answer to a request is no object.
func isStream(info *request.RequestInfo) bool {
	return info.Verb == "watch" || slices.Contains([]string{"exec", "attach", "portforward", "proxy", "log"}, info.Subresource)
}

// withoutYAML returns a request that accepts no YAML, and false if it accepts nothing else. The header
// is read by the code that upstream reads it with. What stands for any type is JSON, and comes last.
func withoutYAML(req *http.Request) (*http.Request, bool) {
	accept := req.Header.Get("Accept")
	if !strings.Contains(accept, "yaml") && !strings.Contains(accept, "*") { // as upstream compares
		return req, true
	}
	var named, wildcards []goautoneg.Accept
	for _, clause := range goautoneg.ParseAccept(accept) {
		switch mediaType := clause.Type + "/" + clause.SubType; mediaType {
		case runtime.ContentTypeJSON, runtime.ContentTypeProtobuf:
			named = append(named, clause)
		case "*/*", "application/*":
			clause.Type, clause.SubType = "application", "json"
			wildcards = append(wildcards, clause)
		}
	}
	clauses := slices.Concat(named, wildcards)
	if len(clauses) == 0 {
		return req, false
	}
	return accepting(req, clauses), true
}

// accepting returns a request that accepts what clauses say, in their order.
func accepting(req *http.Request, clauses []goautoneg.Accept) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Set("Accept", written(clauses))
	return req
}

// written returns clauses as a header, in their order.
func written(clauses []goautoneg.Accept) string {
	var b strings.Builder
	for _, clause := range clauses {
		b.WriteString(clause.Type + "/" + clause.SubType)
		for key, value := range clause.Params {
			b.WriteString(";" + key + "=" + value)
		}
		b.WriteString(";q=" + strconv.FormatFloat(clause.Q, 'f', -1, 64) + ",")
	}
	return strings.TrimSuffix(b.String(), ",")
}

const pretty = "pretty"

// mayIndent reports whether upstream looks whether it is to indent.
func mayIndent(req *http.Request) bool {
	return isTool(req) || strings.Contains(req.URL.RawQuery, pretty) || strings.Contains(req.Header.Get("Accept"), pretty)
}

// isTool reports whether upstream takes a client for one whose answers people read.
func isTool(req *http.Request) bool {
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(prefix string) bool { return strings.HasPrefix(req.UserAgent(), prefix) })
}

// asksPretty reports whether upstream would indent the answer.
func asksPretty(req *http.Request) bool {
	for _, clause := range goautoneg.ParseAccept(req.Header.Get("Accept")) {
		if clause.Params[pretty] == "1" {
			return true
		}
	}
	if strings.Contains(req.URL.RawQuery, pretty) {
		if asked := req.URL.Query().Get(pretty); asked != "" {
			is, _ := strconv.ParseBool(asked)
			return is
		}
	}
	return isTool(req)
}

// plain returns a request whose answer upstream does not indent.
func plain(req *http.Request) *http.Request {
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set(pretty, "false")
	req.URL.RawQuery = query.Encode()
	if accept := req.Header.Get("Accept"); strings.Contains(accept, pretty) {
		clauses := goautoneg.ParseAccept(accept)
		for i := range clauses {
			delete(clauses[i].Params, pretty)
		}
		req.Header.Set("Accept", written(clauses))
	}
	return req
}

// indenting indents JSON that is written to it, as json.Indent does.
type indenting struct {
	http.ResponseWriter
	decided, indents        bool
	depth                   int
	quoted, escaped, opened bool
	buffer                  bytes.Buffer
}

// Unwrap is for http.ResponseController.
func (w *indenting) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *indenting) WriteHeader(code int) {
	if code >= http.StatusOK && !w.decided {
		mediaType, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
		w.decided, w.indents = true, mediaType == runtime.ContentTypeJSON && w.Header().Get("Content-Encoding") == ""
		if w.indents {
			w.Header().Del("Content-Length")
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// maxIndented is how much is indented before it is written, in bytes.
const maxIndented = 32 << 10

// Write implements io.Writer.
func (w *indenting) Write(p []byte) (int, error) {
	if !w.decided {
		w.WriteHeader(http.StatusOK)
	}
	if !w.indents {
		return w.ResponseWriter.Write(p)
	}
	for i, c := range p {
		w.add(c)
		if w.buffer.Len() >= maxIndented {
			if err := w.flush(); err != nil {
				return i, err
			}
		}
	}
	return len(p), w.flush()
}

func (w *indenting) flush() error {
	_, err := w.buffer.WriteTo(w.ResponseWriter)
	return err
}

func (w *indenting) add(c byte) {
	if w.quoted {
		w.buffer.WriteByte(c)
		w.quoted = w.escaped || c != '"'
		w.escaped = !w.escaped && c == '\\'
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '}', ']':
		if w.depth--; !w.opened {
			w.line()
		}
		w.opened = false
		w.buffer.WriteByte(c)
		return
	}
	if w.opened {
		w.opened = false
		w.line()
	}
	w.buffer.WriteByte(c)
	switch c {
	case '"':
		w.quoted = true
	case '{', '[':
		w.depth++
		w.opened = true
	case ',':
		w.line()
	case ':':
		w.buffer.WriteByte(' ')
	}
}

// line begins a line.
func (w *indenting) line() {
	w.buffer.WriteByte('\n')
	for range w.depth {
		w.buffer.WriteString("  ")
	}
}
