package search

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// anyServer takes every request for one of a server, and nobody none.
var (
	anyServer = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{}}, true, nil
	})
	nobody = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })
)

// TestWhoAsks has names that headers would change, and users of other tenants.
func TestWhoAsks(t *testing.T) {
	for name, a := range map[string]*asker{
		"spaces around a name": {user: &user.DefaultInfo{Name: " jane\n", UID: "1", Groups: []string{"a ", "b,c", ""}, Extra: map[string][]string{"K/ey": {" v"}}}, userTenant: "acme", space: "acme"},
		"another tenant":       {user: &user.DefaultInfo{Name: "jane"}, userTenant: "acme", space: "globex"},
		"the system":           {user: &user.DefaultInfo{Name: "jane"}, userTenant: tenant.System, space: "globex"},
		"in the system space":  {user: &user.DefaultInfo{Name: "jane"}, userTenant: tenant.System, space: tenant.System},
	} {
		a.life = "life"
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, http.NoBody)
		if err := a.write(req); err != nil {
			t.Fatal(err)
		}
		got, err := askedBy(req, anyServer)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		u, _ := request.UserFrom(got)
		if diff := cmp.Diff(a.user, u); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		space, spaceErr := tenant.SpaceFrom(got)
		of, tenantErr := tenant.UserTenant(got)
		_, _, foreign := tenant.Foreign(got)
		if err := errors.Join(spaceErr, tenantErr); err != nil || space != a.space || of != a.userTenant || foreign != (name == "another tenant") {
			t.Errorf("%s: %q of %q, foreign %v, %v", name, space, of, foreign, err)
		}
		if uid, known := tenant.UIDFrom(got, a.space); known != a.space.IsSpace() || known && uid != "life" {
			t.Errorf("%s: UID %q", name, uid)
		}
	}
}

// TestWhoMayAsk has requests that are not a server's, or do not say who asks.
func TestWhoMayAsk(t *testing.T) {
	s := newService(t, Config{Serializer: serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()})
	ask := func(servers authenticator.Request, header string) int {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, http.NoBody)
		if header != "" {
			req.Header.Set(askerHeader, header)
		}
		w := httptest.NewRecorder()
		s.Handler(servers).ServeHTTP(w, req)
		return w.Code
	}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, http.NoBody)
	if err := (&asker{user: &user.DefaultInfo{Name: "jane"}, userTenant: "acme", space: "acme"}).write(req); err != nil {
		t.Fatal(err)
	}
	good := req.Header.Get(askerHeader)
	for name, code := range map[string]int{
		"who is none of a server":       ask(nobody, good),
		"a server that says nothing":    ask(anyServer, ""),
		"a server that says nonsense":   ask(anyServer, "e30x"),
		"a server that names no tenant": ask(anyServer, "eyJuYW1lIjoiamFuZSIsInNwYWNlIjoiYWNtZSJ9"), // {"name":"jane","space":"acme"}
	} {
		if code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, code)
		}
	}
	if code := ask(anyServer, good); code != http.StatusServiceUnavailable {
		t.Errorf("without an index: %d", code)
	}
}

// newRemote returns a service that asks a server, with its authorizer.
func newRemote(t *testing.T, answer http.Handler, decide authorizer.AuthorizerFunc, more ...string) *Service {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pair := server.TLS.Certificates[0]
	encoded, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{
		Options: Options{Remote: RemoteOptions{Servers: append(more, server.URL), CAFile: ca, CertFile: cert, KeyFile: key}},
		Listable: func() ([]rights.Resource, error) {
			return []rights.Resource{{Stored: secrets, Served: []schema.GroupResource{secrets}}}, nil
		},
		Authorizer: decide,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func answers(t *testing.T, answer *Answer) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	})
}

// TestRemoteAnswersAreConfirmed has a service that answers what its user may not list.
func TestRemoteAnswersAreConfirmed(t *testing.T) {
	answer := &Answer{Count: 1, Items: []Item{{Space: "acme", Namespace: "a", Resource: "secrets", Name: "s"}}}
	for name, tc := range map[string]struct {
		decision authorizer.Decision
		space    string
		want     string
	}{
		"allowed":       {authorizer.DecisionAllow, "acme", "a"},
		"not allowed":   {authorizer.DecisionNoOpinion, "acme", "ServiceUnavailable"},
		"another space": {authorizer.DecisionAllow, "globex", "InternalError"},
	} {
		answer.Items[0].Space = tc.space
		f := &fixture{TB: t, service: newRemote(t, answers(t, answer), func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return tc.decision, "", nil
		})}
		f.service.config.Limits.Time = 200 * time.Millisecond
		if got := f.search(""); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRemoteEnds checks that subscriptions are told when a server ends that another process searches for.
func TestRemoteEnds(t *testing.T) {
	s := newRemote(t, http.NotFoundHandler(), nil)
	ctx, end := context.WithCancel(t.Context())
	go s.Run(ctx)
	select {
	case <-s.sockets.ended:
		t.Fatal("they are told while it serves")
	default:
	}
	end()
	<-s.sockets.ended
}

// TestRemoteGraphQLIsConfirmed has a service that shows objects in GraphQL that it does not name, or names ones that
// its user may not list.
func TestRemoteGraphQLIsConfirmed(t *testing.T) {
	const (
		query = `{"query":"{ found: search(input: [{}]) { items related { items } } }"}`
		data  = `{"found":[{"items":[{"apigroup":"","name":"s","namespace":"a","resource":"secrets","space":"acme"}],"related":[]}]}`
		shown = `[{"s":"acme","r":"secrets","n":"YQ==","m":"cw=="}]`
	)
	for name, tc := range map[string]struct {
		data, shown, namespace string
		want                   string
	}{
		"what it names":                 {data, shown, "a", data},
		"what may not be listed":        {data, shown, "b", "ServiceUnavailable"},
		"more than it names":            {strings.Replace(data, `"related":[]`, `"related":[{"items":[{"name":"hidden","namespace":"b","resource":"secrets","space":"acme","apigroup":""}]}]`, 1), shown, "a", "InternalError"},
		"nothing of what it shows":      {data, `[]`, "a", "InternalError"},
		"what is of another space":      {strings.ReplaceAll(data, "acme", "globex"), strings.ReplaceAll(shown, "acme", "globex"), "a", "InternalError"},
		"a field that nobody asked for": {strings.Replace(data, `{"found"`, `{"more":[{"name":"hidden"}],"found"`, 1), shown, "a", "InternalError"},
		"a field that is there twice":   {strings.Replace(data, `"related":[]`, `"items":[{"name":"hidden"}]`, 1), shown, "a", "InternalError"},
	} {
		s := newRemote(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"data":` + tc.data + `,"shown":` + tc.shown + `}`))
		}), func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if a.GetNamespace() != tc.namespace {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		})
		s.config.Limits.Time = 200 * time.Millisecond
		if got := (&fixture{TB: t, service: s}).graphql(query); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	names := []byte("\xff\xffa")
	encoded, err := json.Marshal(string(names))
	if err != nil {
		t.Fatal(err)
	}
	var decoded string
	if err := json.Unmarshal(encoded, &decoded); err != nil || asJSON(names) != decoded {
		t.Errorf("%q, and JSON has %q", asJSON(names), decoded)
	}
}

// graphql returns the data of jane's query, or the reason of the error.
func (f *fixture) graphql(body string) string {
	f.Helper()
	u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {"acme"}}}
	ctx := tenant.WithRequest(request.WithUser(f.Context(), u), &tenant.Request{Authenticated: "acme"})
	req := httptest.NewRequestWithContext(tenant.WithUID(ctx, "acme", "1"), http.MethodPost, GraphQLPath, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	encoded, err := f.service.serveGraphQL(req)
	if err != nil {
		return string(apierrors.ReasonForError(err))
	}
	var answer response
	if err := json.Unmarshal(encoded, &answer); err != nil || len(answer.Errors) > 0 {
		f.Fatal(string(encoded), err)
	}
	return string(answer.Data)
}

// TestRemoteFailures has services that do not answer, or answer half.
func TestRemoteFailures(t *testing.T) {
	allow := func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	}
	half := []byte(`{"count":1,"items":[`)
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"half an answer":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(half) }, "ServiceUnavailable"},
		"does not know it": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Unauthorized", http.StatusUnauthorized) }, "ServiceUnavailable"},
		"redirects": {func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "https://example.com", http.StatusFound)
		}, "ServiceUnavailable"},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","status":"Failure","reason":"Forbidden","code":403}`))
		}, "Forbidden"},
	} {
		if got := (&fixture{TB: t, service: newRemote(t, tc.answer, allow)}).search(""); got != tc.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	// No other one is asked if one ends while it is asked, or answers more than there can be.
	for name, answer := range map[string]func(w http.ResponseWriter){
		"ends":             func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"answers too much": func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, maxAnswerSize+1)) },
	} {
		asked, want := atomic.Int64{}, map[string]string{"ends": "ServiceUnavailable", "answers too much": "InternalError"}[name]
		s := newRemote(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			answer(w)
		}), allow)
		s.config.Remote.Servers = append(s.config.Remote.Servers, s.config.Remote.Servers...)
		if got := (&fixture{TB: t, service: s}).search(""); got != want || asked.Load() != 1 {
			t.Errorf("one that %s: %q, and %d were asked", name, got, asked.Load())
		}
	}
	// Another one is asked if one is not there.
	f := &fixture{TB: t, service: newRemote(t, answers(t, &Answer{Items: []Item{}}), allow, "https://127.0.0.1:1", "https://127.0.0.1:2")}
	if got := f.search(""); got != "" {
		t.Errorf("of several: %q", got)
	}
}

// TestClientsHeadersStay has headers of a client, which never reach the service.
func TestClientsHeadersStay(t *testing.T) {
	var got http.Header
	s := newRemote(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got = req.Header.Clone()
		_, _ = w.Write([]byte(`{"count":0,"items":[]}`))
	}), nil)
	u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {"acme"}}}
	ctx := tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Authenticated: "acme"})
	req := httptest.NewRequestWithContext(tenant.WithUID(ctx, "acme", "1"), http.MethodGet, Path+"?q=x", http.NoBody)
	for _, name := range []string{askerHeader, "Authorization", "X-Remote-User", "Cookie"} {
		req.Header.Set(name, "planted")
	}
	if _, err := s.serve(req); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if err := got.Write(&all); err != nil || strings.Contains(all.String(), "planted") || got.Get(askerHeader) == "" {
		t.Errorf("%s, %v", &all, err)
	}
}

func TestRemoteOptions(t *testing.T) {
	good := RemoteOptions{Servers: []string{"https://search:6444"}, CAFile: "ca", CertFile: "crt", KeyFile: "key"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, server := range []string{"http://search:6444", "search:6444", "https://search/x", "https://u@search", "https://", "https://search?x", rand.Text()} {
		o := good
		o.Servers = []string{server}
		if o.Validate() == nil {
			t.Errorf("%q is taken", server)
		}
	}
	for _, o := range []RemoteOptions{{Servers: good.Servers, CertFile: "c", KeyFile: "k"}, {Servers: good.Servers, CAFile: "ca"}, {CAFile: "ca"}} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
