package search

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/search/graphql"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/properties"
	"github.com/tenantry/tenantry/internal/search/query"
	"github.com/tenantry/tenantry/internal/search/rights"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestRelations has a Deployment with a ReplicaSet and a pod, a Service of the pod, and users who see some of them.
func TestRelations(t *testing.T) {
	f := newFixture(t)
	deployments, replicaSets := schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "apps", Resource: "replicasets"}
	row := func(resource schema.GroupResource, kind, name, uid string, links ...index.Link) index.Row {
		return index.Row{Space: "acme", Resource: resource, Kind: kind, Namespace: "a", Name: name, Details: index.Details{UID: uid, Links: links}}
	}
	ownedBy := func(uid string) index.Link { return index.Link{Relation: properties.OwnedBy, To: index.ToUID(uid)} }
	pod := row(pods, "Pod", "p", "3", ownedBy("2"), index.Link{Relation: properties.AttachedTo, To: index.ToPlace(secrets, "a", "s")})
	pod.Labels = map[string]string{"app": "web", "tier": "front"}
	service, other := row(services, "Service", "v", "4"), row(services, "Service", "w", "5")
	service.Selector, other.Selector = map[string]string{"app": "web"}, map[string]string{"app": "web", "tier": "back"}
	var writes []index.Write
	for _, r := range []index.Row{row(deployments, "Deployment", "d", "1"), row(replicaSets, "ReplicaSet", "r", "2", ownedBy("1")), pod, service, other} {
		writes = append(writes, index.Write{Key: r.Kind + r.Name, Rows: []index.Row{r}})
	}
	if _, err := f.session.index.Apply(t.Context(), writes, 11); err != nil {
		t.Fatal(err)
	}
	all := sets.New(deployments, replicaSets, pods, services, secrets)
	for name, tc := range map[string]struct {
		visible sets.Set[schema.GroupResource]
		text    string
		kinds   []string
		want    string
	}{
		"down":                     {all, "kind:deployment", nil, "ownedBy Pod/p, ownedBy ReplicaSet/r"},
		"up and around":            {all, "kind:pod", nil, "ownedBy Deployment/d, ownedBy ReplicaSet/r, attachedTo Secret/s, usedBy Service/v"},
		"from the middle":          {all, "kind:replicaset", nil, "ownedBy Deployment/d, ownedBy Pod/p"},
		"of some kinds":            {all, "kind:pod", []string{"secret", "Service"}, "attachedTo Secret/s, usedBy Service/v"},
		"of what is used":          {all, "kind:service", nil, "usedBy Pod/p"},
		"of what is attached":      {all, "kind:secret namespace:a", nil, "attachedTo Pod/p"},
		"what was found":           {all, "kind:pod,replicaset", nil, "ownedBy Deployment/d, attachedTo Secret/s, usedBy Service/v"},
		"through what is not seen": {all.Difference(sets.New(replicaSets)), "kind:deployment", nil, ""},
		"not what is not seen":     {sets.New(pods), "kind:pod", nil, ""},
		"of nothing":               {all, "kind:none", nil, ""},
	} {
		q, err := query.Parse(tc.text, metav1.Now().Time)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := f.session.index.View(t.Context(), func(s *index.Snapshot) error {
			v := &view{snapshot: s, own: "acme", scopes: map[tenant.Name]index.Scope{"acme": {Space: "acme", Visible: &rights.Set{Whole: tc.visible}}}}
			found, related, err := v.find(t.Context(), &question{query: q, limit: 10, items: true, related: true, kinds: tc.kinds})
			shown := len(found.Rows)
			for _, of := range related {
				shown += len(of.Items)
				for _, item := range of.Items {
					got = append(got, strings.Join(item.Relations, "+")+" "+of.Kind+"/"+item.Name)
				}
			}
			if shown != len(v.shown) {
				t.Errorf("%s: the authorizer is asked about %d of %d objects", name, len(v.shown), shown)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(got, ", "); text != tc.want {
			t.Errorf("%s: %s, want %s", name, text, tc.want)
		}
	}
}

// TestGraphQLRequests has requests that are none, or that pages of other sites can send.
func TestGraphQLRequests(t *testing.T) {
	f := newFixture(t)
	for name, tc := range map[string]struct {
		method, contentType, body string
		want                      metav1.StatusReason
	}{
		"a form":       {http.MethodPost, "application/x-www-form-urlencoded", "{}", metav1.StatusReasonUnknown},
		"text":         {http.MethodPost, "text/plain", "{}", metav1.StatusReasonUnknown},
		"no type":      {http.MethodPost, "", "{}", metav1.StatusReasonUnknown},
		"a get":        {http.MethodGet, "application/json", "", metav1.StatusReasonMethodNotAllowed},
		"too large":    {http.MethodPost, "application/json", strings.Repeat(" ", graphql.MaxBytes+1), metav1.StatusReasonRequestEntityTooLarge},
		"without user": {http.MethodPost, "application/json; charset=utf-8", "{}", metav1.StatusReasonBadRequest},
	} {
		req := httptest.NewRequestWithContext(context.Background(), tc.method, GraphQLPath, strings.NewReader(tc.body))
		if tc.contentType != "" {
			req.Header.Set("Content-Type", tc.contentType)
		}
		_, err := f.service.serveGraphQL(req)
		if err == nil || apierrors.ReasonForError(err) != tc.want && tc.want != metav1.StatusReasonUnknown {
			t.Errorf("%s: %v", name, err)
		}
		if tc.want == metav1.StatusReasonUnknown && (err == nil || !strings.Contains(err.Error(), "application/json")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	late := apierrors.NewTimeoutError("send it again", 0)
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, GraphQLPath, iotest.ErrReader(late))
	req.Header.Set("Content-Type", "application/json")
	if _, err := f.service.serveGraphQL(req); !errors.Is(err, late) {
		t.Errorf("the client is not told why its body was not taken: %v", err)
	}
}

// TestLargeAnswers asks in each way for more than an answer may have.
func TestLargeAnswers(t *testing.T) {
	f := newSocketFixture(t)
	large := strings.Repeat("<", maxAnswer/8/6) // takes six bytes in JSON
	var writes []index.Write
	for i := range 10 {
		r := index.Row{Space: "acme", Resource: secrets, Namespace: "a", Name: fmt.Sprint("large", i), Kind: "Secret", Details: index.Details{UID: fmt.Sprint(i), Status: large}}
		r.Links = []index.Link{{Relation: properties.OwnedBy, To: index.ToUID("0")}}
		writes = append(writes, index.Write{Key: r.Name, Rows: []index.Row{r}})
	}
	f.apply(11, writes...)
	ask := func(method, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(f.url, GraphQLPath)+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer jane")
		req.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		read, err := io.ReadAll(response.Body)
		if err != nil || len(read) > maxAnswer+1 {
			t.Errorf("%s %s: %d bytes, %v", path, body, len(read), err)
		}
		return fmt.Sprint(response.StatusCode, " ", string(read[:min(len(read), 400)]))
	}
	if got := ask(http.MethodGet, Path, ""); !strings.HasPrefix(got, `200 {"count":11,`) {
		t.Errorf("a page: %.200s", got)
	}
	if got := ask(http.MethodGet, Path+"?q=name:large0&related=*", ""); !strings.HasPrefix(got, "400 ") || !strings.Contains(got, "more than 16 MiB would have to be read") {
		t.Errorf("related: %.200s", got)
	}
	if text, err := encoded(strings.Repeat("<", maxAnswer/6+1)); graphql.RefusedBy(err) == nil { // a name may be anything
		t.Errorf("an answer of %d bytes, %v", len(text), err)
	}
	const query = `{"query": "{ search(input: [{limit: 3}%s]) { items%s related { items } } }"}`
	for name, body := range map[string]string{
		"many searches":   fmt.Sprintf(query, strings.Repeat(", {limit: 3}", 4), ""),
		"many times":      fmt.Sprintf(query, "", " a: items b: items c: items d: items"),
		"related objects": fmt.Sprintf(query, "", " r: related { a: items b: items c: items }"),
	} {
		if got := ask(http.MethodPost, GraphQLPath, body); !strings.HasPrefix(got, `200 {"errors":[`) || !strings.Contains(got, "MiB") && !strings.Contains(got, "bytes") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	conn := f.begun()
	if typ, payload := f.say(conn, `{"type":"subscribe","id":"1","payload":{"query":"subscription { watch { uid } }"}}`); typ != "error" || !strings.Contains(payload, "4 MiB") {
		t.Errorf("a subscription: %s %.200s", typ, payload)
	}
}

// TestManyKinds asks for related objects of as many kinds as a request has room for.
func TestManyKinds(t *testing.T) {
	r := &relations{view: &view{}, found: map[index.Ref]*relative{}}
	kinds := make([]string, 60_000)
	for i := range kinds {
		kinds[i] = fmt.Sprint("kind", i)
	}
	for i := range 5000 {
		row := index.Row{Kind: fmt.Sprint("Kind", i*20), Name: fmt.Sprint(i)}
		r.found[row.Ref()] = &relative{row: row}
	}
	if got := len(r.byKind(kinds)); got != 3000 {
		t.Errorf("%d kinds", got)
	}
}
