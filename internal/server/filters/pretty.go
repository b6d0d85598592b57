package filters

import (
	"bytes"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/httpstream"
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
		if !ok || !info.IsResourceRequest || err != nil || !n.IsSpace() || isStream(info) || httpstream.IsUpgradeRequest(req) {
			handler.ServeHTTP(w, req)
			return
		}
		if slices.Contains([]string{"list", "deletecollection"}, info.Verb) {
			if req, ok = withoutYAML(req); !ok {
				reject(w, req, serializer, errYAMLList)
				return
			}
		}
		if asksPretty(req) {
			w, req = responsewriter.WrapForHTTP1Or2(&indenting{ResponseWriter: w}), plain(req)
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

// withoutYAML returns a request that accepts no YAML, and false if it accepts nothing else. What
// stands for any type is JSON to upstream, too, unless its parameters are not taken.
func withoutYAML(req *http.Request) (*http.Request, bool) {
	accept := req.Header.Get("Accept")
	if accept == "" {
		return req, true
	}
	var kept []string
	for clause := range strings.SplitSeq(accept, ",") {
		mediaType, _, _ := strings.Cut(clause, ";")
		switch strings.ToLower(strings.TrimSpace(mediaType)) {
		case runtime.ContentTypeYAML:
			continue
		case "*/*", "*", "application/*":
			clause = runtime.ContentTypeJSON + clause[len(mediaType):]
		}
		kept = append(kept, clause)
	}
	if len(kept) == 0 {
		return req, false
	}
	req = req.Clone(req.Context())
	req.Header.Set("Accept", strings.Join(kept, ","))
	return req, true
}

// prettyParameter is that of a media type.
var prettyParameter = regexp.MustCompile(`;[ \t]*pretty[ \t]*=[ \t]*([^;,]*)`)

// asksPretty reports whether upstream would indent the answer.
func asksPretty(req *http.Request) bool {
	for _, parameter := range prettyParameter.FindAllStringSubmatch(req.Header.Get("Accept"), -1) {
		if strings.TrimSpace(parameter[1]) == "1" {
			return true
		}
	}
	if asked := req.URL.Query().Get("pretty"); asked != "" {
		pretty, _ := strconv.ParseBool(asked)
		return pretty
	}
	return slices.ContainsFunc([]string{"curl", "Wget", "Mozilla/5.0"}, func(prefix string) bool { return strings.HasPrefix(req.UserAgent(), prefix) })
}

// plain returns a request whose answer upstream neither indents nor compresses.
func plain(req *http.Request) *http.Request {
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set("pretty", "false")
	req.URL.RawQuery = query.Encode()
	req.Header.Set("Accept", prettyParameter.ReplaceAllString(req.Header.Get("Accept"), ""))
	req.Header.Del("Accept-Encoding")
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
