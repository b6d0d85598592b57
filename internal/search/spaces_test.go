package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/query"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestSearchedBy(t *testing.T) {
	for text, want := range map[string][]tenant.Name{
		"":                                  {"acme"},
		"kind:pod globex":                   {"acme"},
		"space:acme":                        {"acme"},
		"space:globex":                      {"globex"},
		"space:globex,acme,globex,initech":  {"acme", "globex", "initech"},
		"space:globex,initech space:!acme":  {"globex", "initech"},
		"space:globex,initech space:globex": {"globex"},
		"space:globex space:initech":        {"acme"}, // in which there is nothing that matches
		"space:!globex":                     {"acme"},
		"space:*":                           {"acme"},
		"space:glob*":                       {"acme"},
		"space:glob*,initech":               {"initech"},
		"space:globex space:glob*":          {"globex"},
		"space:=globex":                     {"globex"},
		"space:system":                      {tenant.System},
		"space:Globex":                      nil,
		"space:all":                         nil,
		`space:"a/b"`:                       nil,
		`space:""`:                          nil,
	} {
		q, err := query.Parse(text, time.Now())
		if err != nil {
			if want != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		got, err := searchedBy(q, "acme")
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %s", text, err, diff)
		}
	}
}

// spaced is a fixture in which root of the system may list everything, behind what stands for the server's filters.
type spaced struct {
	*fixture
	handler http.Handler
	// asked are the spaces of the requests that come to the filters, and refuses those that refuse them.
	asked   []string
	refuses map[tenant.Name]func(w http.ResponseWriter)
	// lives are the UIDs that the filters know.
	lives map[tenant.Name]types.UID
	// before is called before a request is served.
	before func(n tenant.Name, looks bool)
}

func newSpaced(t *testing.T) *spaced {
	f := &spaced{fixture: newFixture(t), refuses: map[tenant.Name]func(http.ResponseWriter){}, before: func(tenant.Name, bool) {},
		lives: map[tenant.Name]types.UID{"acme": "1", "globex": "2", "initech": "3"}}
	for n, uid := range map[tenant.Name]types.UID{"globex": "2", "initech": "3"} {
		f.tell(tenantregistry.Resource, storage.ObjectKey{Space: tenant.System, Name: n.String()}, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{UID: uid}}, 4)
		row := index.Row{Space: n, Resource: secrets, Namespace: "in-" + n.String(), Name: "s", Kind: "Secret"}
		if _, err := f.session.index.Apply(t.Context(), []index.Write{{Key: n.String(), Rows: []index.Row{row}}}, 10); err != nil {
			t.Fatal(err)
		}
	}
	served := f.service.WithSearch(http.NotFoundHandler())
	f.handler = f.service.WithSpaces(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r := tenant.RequestFrom(req.Context())
		space := tenant.System
		if r.Requested != "" {
			space, _ = r.Requested.Space()
		}
		f.asked = append(f.asked, space.String())
		if req.Header.Get("Authorization") != "Bearer root" || r.Authenticated != "" {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		req.Header.Del("Authorization") // as authentication does
		r.Authenticated = tenant.System
		if refuse := f.refuses[space]; refuse != nil {
			refuse(w)
			return
		}
		v := visitFrom(req.Context())
		f.before(space, v.looks)
		ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
		if space.IsSpace() {
			ctx = tenant.WithUID(ctx, space, f.lives[space])
		}
		served.ServeHTTP(w, req.WithContext(ctx))
	}))
	return f
}

// ask returns the namespaces of what is found, or the status and what is said.
func (f *spaced) ask(method, path, body string) string {
	f.Helper()
	f.asked = nil
	req := httptest.NewRequestWithContext(f.Context(), method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer root")
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, req.WithContext(tenant.WithRequest(req.Context(), &tenant.Request{})))
	if w.Code != http.StatusOK {
		var status metav1.Status
		_ = json.Unmarshal(w.Body.Bytes(), &status)
		return fmt.Sprint(w.Code, " ", status.Message)
	}
	if path == GraphQLPath {
		return strings.TrimSpace(w.Body.String())
	}
	var answer Answer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		f.Fatal(err, w.Body)
	}
	var namespaces []string
	for _, item := range answer.Items {
		namespaces = append(namespaces, item.Space+"/"+item.Namespace)
	}
	return strings.Join(namespaces, " ")
}

// TestSeveralSpaces has each space asked by a request of its own, with the credentials of the first.
func TestSeveralSpaces(t *testing.T) {
	f := newSpaced(t)
	for _, tc := range []struct{ query, want, asked string }{
		{"", "", "system"},
		{"space:system", "", "system"},
		{"space:globex", "globex/in-globex", "system globex system"},
		{"space:globex,acme", "acme/a acme/b globex/in-globex", "system globex acme system"},
		{"space:globex,system", "globex/in-globex", "system globex system"},
		{"space:globex,acme+space:!globex", "acme/a acme/b", "system acme system"},
		{"space:All", "400 q: filter space: invalid tenant name", "system"},
	} {
		if got := f.ask(http.MethodGet, Path+"?q="+tc.query, ""); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" || strings.Join(f.asked, " ") != tc.asked {
			t.Errorf("%q: %q of %q", tc.query, got, f.asked)
		}
	}
	many := make([]string, maxSpaces)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
		f.tell(tenantregistry.Resource, storage.ObjectKey{Space: tenant.System, Name: many[i]}, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{UID: types.UID(many[i])}}, 5)
		f.lives[tenant.Name(many[i])] = types.UID(many[i])
	}
	body := func(spaces ...string) string {
		encoded, _ := json.Marshal(map[string]any{"query": "query q($s: [String]!) { search(input: [{filters: [{property: \"space\", values: $s}]}, {}]) { count } }", "variables": map[string]any{"s": spaces}})
		return string(encoded)
	}
	if got := f.ask(http.MethodPost, GraphQLPath, body("acme", "globex")); got != `{"data":{"search":[{"count":3},{"count":0}]}}` || strings.Join(f.asked, " ") != "system acme globex system" {
		t.Errorf("got %s of %q", got, f.asked)
	}
	if got := f.ask(http.MethodPost, GraphQLPath, body(many...)); got != "400 the search names 51 spaces, and may name 50" || len(f.asked) != 1 {
		t.Errorf("got %s of %q", got, f.asked)
	}
	if got := f.ask(http.MethodPost, GraphQLPath, body(many[1:]...)); got != `{"data":{"search":[{"count":0},{"count":0}]}}` || len(f.asked) != maxSpaces+1 {
		t.Errorf("got %s of %q", got, f.asked)
	}
}

// TestSpacesRefuse has one of several spaces refuse: then there is no answer, and the user is told which one.
func TestSpacesRefuse(t *testing.T) {
	f := newSpaced(t)
	f.refuses["globex"] = func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "7")
		http.Error(w, "it is suspended", http.StatusForbidden)
	}
	if got := f.ask(http.MethodGet, Path+"?q=space:acme,globex,initech", ""); got != `403 space "globex": it is suspended` || slices.Contains(f.asked, "initech") {
		t.Errorf("got %s of %q", got, f.asked)
	}
	f.refuses["globex"] = func(http.ResponseWriter) {} // an answer that says nothing
	if got := f.ask(http.MethodGet, Path+"?q=space:acme,globex", ""); !strings.HasPrefix(got, "500 ") {
		t.Errorf("got %s", got)
	}
	delete(f.refuses, "globex")
	f.lives["globex"] = "an earlier one"
	if got := f.ask(http.MethodGet, Path+"?q=space:acme,globex", ""); !strings.HasPrefix(got, "403 ") || !strings.Contains(got, "globex") {
		t.Errorf("of another tenant of the name: %s", got)
	}
	f.lives["globex"] = "2"
	f.authorize = func() (authorizer.Decision, error) { return authorizer.DecisionDeny, nil }
	f.service.config.Limits.Time = 100 * time.Millisecond
	if got := f.ask(http.MethodGet, Path+"?q=space:acme,globex", ""); !strings.HasPrefix(got, "503 ") {
		t.Errorf("without the authorizer's word: %s", got)
	}
}

// TestOneSpaceChanges has something happen to one of several spaces after it has let the request in.
func TestOneSpaceChanges(t *testing.T) {
	f := newSpaced(t)
	f.before = func(n tenant.Name, looks bool) {
		if n == "globex" && looks {
			f.tell(tenantregistry.Resource, storage.ObjectKey{Space: tenant.System, Name: "globex"}, nil, 10)
		}
	}
	if got := f.ask(http.MethodGet, Path+"?q=space:acme,globex", ""); !strings.HasPrefix(got, "403 ") {
		t.Errorf("deleted meanwhile: %s", got)
	}
	f = newSpaced(t)
	asked := 0
	f.authorize = func() (authorizer.Decision, error) {
		if asked++; asked == 1 { // rights in the last space change while the first is confirmed
			f.tell(tenantregistry.Resource, storage.ObjectKey{Space: tenant.System, Name: "initech"}, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{UID: "3", Labels: map[string]string{"a": "b"}}}, 10)
		}
		return authorizer.DecisionAllow, nil
	}
	if got := f.ask(http.MethodGet, Path+"?q=space:acme,initech", ""); got != "acme/a acme/b initech/in-initech" || asked != 6 {
		t.Errorf("got %s after %d questions", got, asked)
	}
}

// TestElsewhere has a server tell a service who asks in which spaces.
func TestElsewhere(t *testing.T) {
	jane := &asker{user: &user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}}, userTenant: "acme", space: "acme", life: "1"}
	guest := &asker{user: jane.user, userTenant: "acme", space: "globex", life: "2"}
	jane.places = []*asker{jane, guest}
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, Path, http.NoBody)
	if err := jane.write(req); err != nil {
		t.Fatal(err)
	}
	ctx, err := askedBy(req, anyServer)
	if err != nil {
		t.Fatal(err)
	}
	got, err := newAsker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.enter(ctx, []tenant.Name{"globex", "acme"}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []*asker{guest, jane} {
		in := got.all()[i]
		_, _, foreign := tenant.Foreign(in.in(ctx))
		if in.space != want.space || in.life != want.life || in.userTenant != "acme" || in.user.GetName() != "jane" || foreign != (in.space == "globex") {
			t.Errorf("%+v, foreign %v", in, foreign)
		}
	}
	if err := got.enter(ctx, []tenant.Name{"initech"}); err == nil || errors.Is(err, errNotLetIn) {
		t.Error("a service asks where no server has let the request in")
	}
}
