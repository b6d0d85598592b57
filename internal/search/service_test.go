package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/search/rights"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

var secrets = schema.GroupResource{Resource: "secrets"}

// fixture is a service in which jane of acme may list the Secrets in namespace a. There is one in a and one
// in b. Everything is known up to revision 10.
type fixture struct {
	testing.TB
	// dir is that of the index.
	dir     string
	service *Service
	local   *local
	session *session
	// authorize is the server's authorizer.
	authorize func() (authorizer.Decision, error)
	// revision is what etcd says.
	revision atomic.Int64
}

// newService returns a service that searches itself.
func newService(t testing.TB, config Config) *Service {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{TB: t, authorize: func() (authorizer.Decision, error) { return authorizer.DecisionAllow, nil }}
	state := rights.NewState(rights.Config{
		Order:   func() []authzconfig.AuthorizerType { return []authzconfig.AuthorizerType{"RBAC"} },
		Builtin: []rights.Resource{{Stored: secrets, Served: []schema.GroupResource{secrets}}},
	})
	f.dir = filepath.Join(t.TempDir(), "search")
	database, err := index.Open(t.Context(), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	lead(t, database)
	f.service = newService(t, Config{Serializer: scheme.Codecs, Authorizer: authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		decision, err := f.authorize()
		return decision, "", err
	})})
	f.local, _ = f.service.finder.(*local)
	f.session = newSession(parts{stream: &stored{}, rights: state, index: database, options: &Options{}, watches: &f.service.watches}, true, index.Progress{}, nil)
	f.session.Listed(10, 10)
	f.session.revisions.read = func(context.Context) (int64, error) { return f.revision.Load(), nil }
	f.local.current.Store(f.session)
	f.tell(tenantregistry.Resource, storage.ObjectKey{Space: tenant.System, Name: "acme"}, &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{UID: "1"}}, 1)
	f.tell(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, storage.ObjectKey{Space: "acme", Namespace: "a", Name: "r"},
		&rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}}, 2)
	f.bind(true, 3)
	for _, namespace := range []string{"a", "b"} {
		row := index.Row{Space: "acme", Resource: secrets, Namespace: namespace, Name: "s", Kind: "Secret"}
		if _, err := database.Apply(t.Context(), []index.Write{{Key: namespace, Rows: []index.Row{row}}}, 10); err != nil {
			t.Fatal(err)
		}
	}
	f.revision.Store(10)
	f.session.writer.noted.Revision = 10
	f.session.Reached(10)
	return f
}

// lead has this process write a database.
func lead(t testing.TB, database *index.Index) {
	t.Helper()
	if leads, err := database.Lead(t.Context()); err != nil || !leads {
		t.Fatal(leads, err)
	}
	if err := database.Reset(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) tell(resource schema.GroupResource, p storage.ObjectKey, obj runtime.Object, revision int64) {
	f.Helper()
	if _, err := f.session.rights.Tell(resource, p, obj, revision); err != nil {
		f.Fatal(err)
	}
}

// bind gives jane the right, or takes it away.
func (f *fixture) bind(bound bool, revision int64) {
	f.Helper()
	var binding runtime.Object
	if bound {
		binding = &rbacv1.RoleBinding{Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "jane"}}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}}
	}
	f.tell(schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}, storage.ObjectKey{Space: "acme", Namespace: "a", Name: "b"}, binding, revision)
}

// search returns the namespaces of what jane finds, or the reason of the error.
func (f *fixture) search(parameters string) string {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	return f.searchIn(ctx, parameters)
}

func (f *fixture) searchIn(ctx context.Context, parameters string, groups ...string) string {
	f.Helper()
	u := &user.DefaultInfo{Name: "jane", Groups: groups, Extra: map[string][]string{tenant.UserExtraKey: {"acme"}}}
	ctx = tenant.WithRequest(request.WithUser(ctx, u), &tenant.Request{Authenticated: "acme"})
	req := httptest.NewRequestWithContext(tenant.WithUID(ctx, "acme", "1"), http.MethodGet, Path+parameters, http.NoBody)
	encoded, err := f.service.serve(req)
	if err != nil {
		return string(apierrors.ReasonForError(err))
	}
	var answer Answer
	if err := json.Unmarshal(encoded, &answer); err != nil {
		f.Fatal(err)
	}
	var namespaces []string
	for _, item := range answer.Items {
		namespaces = append(namespaces, item.Namespace)
	}
	if answer.Count != int64(len(answer.Items)) {
		f.Errorf("%d of %d", len(answer.Items), answer.Count)
	}
	return strings.Join(namespaces, ",")
}

func TestAnswers(t *testing.T) {
	f := newFixture(t)
	if got := f.search(""); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := f.searchIn(t.Context(), "", user.AllUnauthenticated); got != string(metav1.StatusReasonUnauthorized) {
		t.Errorf("anonymous: %q", got)
	}
	f.bind(false, 11)
	f.revision.Store(11)
	f.session.Reached(11)
	if got := f.search(""); got != "" {
		t.Errorf("after a revocation: %q", got)
	}
	f.local.current.Store(nil)
	if got := f.search(""); got != string(metav1.StatusReasonServiceUnavailable) {
		t.Errorf("without an index: %q", got)
	}
}

// TestNoOldRights looks for an answer of rights that etcd has overtaken.
func TestNoOldRights(t *testing.T) {
	f := newFixture(t)
	f.revision.Store(11)
	answered, ctx := f.askWhile(t.Context())
	f.session.told.awaited(ctx)
	f.bind(false, 11)
	f.session.Reached(11)
	if got := <-answered; got != "" {
		t.Errorf("got %q", got)
	}
}

// askWhile searches in the background. The context ends with the answer.
func (f *fixture) askWhile(ctx context.Context) (<-chan string, context.Context) {
	f.Helper()
	ctx, cancel := context.WithCancel(ctx)
	answered := make(chan string, 1)
	go func() {
		defer cancel()
		answered <- f.search("")
	}()
	return answered, ctx
}

// TestNoOldObjects looks for an answer of objects that were there before the right was given.
func TestNoOldObjects(t *testing.T) {
	f := newFixture(t)
	f.bind(true, 11) // and the index is as of 10
	u := &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {"acme"}}}
	ctx := tenant.WithUID(tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Authenticated: "acme"}), "acme", "1")
	a, err := newAsker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	f.authorize = func() (authorizer.Decision, error) {
		t.Error("the index is older than the right")
		return authorizer.DecisionAllow, nil
	}
	tried, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		_, err := f.local.try(ctx, f.session, a, func(context.Context, *view) error {
			t.Error("the index is older than the right")
			return nil
		})
		tried <- err
	}()
	waits, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		<-over
		stop()
	}()
	f.session.moved.awaited(waits)
	cancel()
	if err := <-tried; !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

// TestRightsThatChange has the right taken away after the index was read.
func TestRightsThatChange(t *testing.T) {
	f := newFixture(t)
	var once sync.Once
	f.authorize = func() (authorizer.Decision, error) {
		once.Do(func() {
			f.bind(false, 11)
			f.session.Reached(11)
		})
		return authorizer.DecisionAllow, nil
	}
	if got := f.search(""); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestAuthorizerConfirms has an authorizer that does not allow what the rights say.
func TestAuthorizerConfirms(t *testing.T) {
	f := newFixture(t)
	f.service.config.Limits.Time = 50 * time.Millisecond
	for name, authorize := range map[string]func() (authorizer.Decision, error){
		"no opinion": func() (authorizer.Decision, error) { return authorizer.DecisionNoOpinion, nil },
		"deny":       func() (authorizer.Decision, error) { return authorizer.DecisionDeny, nil },
		"an error":   func() (authorizer.Decision, error) { return authorizer.DecisionAllow, errors.New("wrong") },
	} {
		f.authorize = authorize
		if got := f.search(""); got != string(metav1.StatusReasonServiceUnavailable) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestOtherLives has a tenant that is another one, or suspended, as of the revision of the rights.
func TestOtherLives(t *testing.T) {
	f := newFixture(t)
	place := storage.ObjectKey{Space: tenant.System, Name: "acme"}
	for _, other := range []*v1alpha1.Tenant{
		{ObjectMeta: metav1.ObjectMeta{UID: "2"}},
		{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Spec: v1alpha1.TenantSpec{Suspended: true}},
	} {
		f.tell(tenantregistry.Resource, place, other, 4)
		if got := f.search(""); got != string(metav1.StatusReasonForbidden) {
			t.Errorf("%+v: %q", other, got)
		}
	}
	f.tell(tenantregistry.Resource, place, nil, 5)
	if got := f.search(""); got != string(metav1.StatusReasonForbidden) {
		t.Errorf("a tenant that is gone: %q", got)
	}
}

// TestRevisionsToCome asks for what nobody can have seen: its tenant's other searches would wait for that.
func TestRevisionsToCome(t *testing.T) {
	f := newFixture(t)
	if got := f.search("?minRevision=10"); got != "a" {
		t.Errorf("got %q", got)
	}
	if got := f.search("?minRevision=11"); got != string(metav1.StatusReasonBadRequest) {
		t.Errorf("got %q", got)
	}
}

// TestNothingIsConfirmedForNobody has a search end while its objects are looked at.
func TestNothingIsConfirmedForNobody(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(tenant.WithRequest(t.Context(), &tenant.Request{}))
	asked := 0
	f.authorize = func() (authorizer.Decision, error) {
		asked++
		cancel()
		return authorizer.DecisionAllow, nil
	}
	shown := []index.Ref{{Space: "acme", Ref: objects.Ref{Resource: secrets, Namespace: "a"}}, {Space: "acme", Ref: objects.Ref{Resource: secrets, Namespace: "b"}}}
	if f.service.config.confirm(ctx, f.session.rights.Served, &asker{user: &user.DefaultInfo{}, space: "acme"}, shown) || asked != 1 {
		t.Errorf("the authorizer was asked %d times", asked)
	}
}

// TestRevisions has many ask at once: nobody gets what was read before they asked.
func TestRevisions(t *testing.T) {
	var etcd atomic.Int64
	reads, release := atomic.Int64{}, make(chan struct{})
	r := &revisions{read: func(context.Context) (int64, error) {
		reads.Add(1)
		revision := etcd.Load()
		<-release
		return revision, nil
	}}
	var asking sync.WaitGroup
	const askers = 50
	for range askers {
		before := etcd.Add(1)
		asking.Go(func() {
			revision, err := r.now(t.Context())
			if err != nil || revision < before {
				t.Errorf("got %d, %v, and asked after %d", revision, err, before)
			}
		})
	}
	close(release)
	asking.Wait()
	if n := reads.Load(); n < 1 || n > askers {
		t.Errorf("etcd was asked %d times", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&revisions{read: func(context.Context) (int64, error) { select {} }}).now(ctx); err == nil {
		t.Error("an answer without etcd")
	}
}

func TestOptions(t *testing.T) {
	for _, key := range []string{lastApplied, "*", "", "a b", "a/b/c"} {
		if err := (Options{Annotations: []string{key}, Limits: DefaultLimits}).Validate(); len(err) != 1 {
			t.Errorf("annotation %q is searched: %v", key, err)
		}
	}
	if err := (Options{Annotations: []string{"a", "Example.com/A.b_c"}, Limits: DefaultLimits}).Validate(); len(err) > 0 {
		t.Error(err)
	}
}

// TestSealed has objects that cannot be decrypted now: the index fails, instead of lacking them.
func TestSealed(t *testing.T) {
	f := newFixture(t)
	broken := errors.New("is no object")
	for _, tc := range []struct {
		err   error
		fails bool
	}{{storage.ErrSealed, true}, {broken, false}} {
		f.session.stream = &stored{decode: func() error { return tc.err }}
		change := &storage.StoredChange{Key: "k", Revision: 11, Resource: secrets}
		if _, err := f.session.writer.writes(t.Context(), []*lane{{taken: []*job{{change: change}}}}); errors.Is(err, storage.ErrSealed) != tc.fails {
			t.Errorf("an object: %v", err)
		}
		change = &storage.StoredChange{Key: "r", Revision: 11, Resource: schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}}
		if err := f.session.Changed(t.Context(), []storage.StoredChange{*change}); errors.Is(err, storage.ErrSealed) != tc.fails {
			t.Errorf("what gives rights: %v", err)
		}
	}
}

// TestFailedWrites has a database that takes no more: there is no answer any more.
func TestFailedWrites(t *testing.T) {
	f := newFixture(t)
	f.session.stream = &stored{decode: func() error { return errors.New("is no object") }}
	if err := f.session.Changed(t.Context(), []storage.StoredChange{{Key: "k", Revision: 11, Resource: secrets, Deleted: true}}); err != nil {
		t.Fatal(err)
	}
	if err := f.session.index.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.session.writer.writeNext(t.Context(), nil); err == nil {
		t.Error("a write that has failed is not noticed")
	}
	if got := f.search(""); got != string(metav1.StatusReasonServiceUnavailable) {
		t.Errorf("got %q", got)
	}
}

// TestAuthorizerBehind has an authorizer that is behind the rights for longer than it should be: the search takes
// longer.
func TestAuthorizerBehind(t *testing.T) {
	f := newFixture(t)
	asked := 0
	f.authorize = func() (authorizer.Decision, error) {
		if asked++; asked < 30 {
			return authorizer.DecisionNoOpinion, nil
		}
		return authorizer.DecisionAllow, nil
	}
	if got := f.search(""); got != "a" || asked != 30 {
		t.Errorf("got %q after %d", got, asked)
	}
}

// TestRightsThatChangeOften has rights that have changed whenever an answer is made, for a while.
func TestRightsThatChangeOften(t *testing.T) {
	f := newFixture(t)
	changes := int64(0)
	f.authorize = func() (authorizer.Decision, error) {
		if changes++; changes < 30 {
			f.bind(true, 10+changes)
			f.session.Reached(10 + changes)
		}
		return authorizer.DecisionAllow, nil
	}
	if got := f.search(""); got != "a" || changes != 30 {
		t.Errorf("got %q after %d", got, changes)
	}
}

// BenchmarkAfterChange measures the first search after a right has been given or taken away, of a user who is bound in
// many namespaces as well.
func BenchmarkAfterChange(b *testing.B) {
	for _, namespaces := range []int{1, 1000, 10_000} {
		for _, changes := range []bool{true, false} {
			b.Run(fmt.Sprintf("namespaces=%d/after=%v", namespaces, changes), func(b *testing.B) {
				f := newFixture(b)
				revision := int64(10)
				f.bindIn(namespaces)
				for b.Loop() {
					if changes {
						b.StopTimer()
						revision++
						f.bind(revision%2 == 0, revision)
						b.StartTimer()
					}
					f.revision.Store(revision)
					f.session.writer.noted.Revision = revision
					f.session.Reached(revision)
					if got := f.search(""); got != "a" && got != "" {
						b.Fatal(got)
					}
				}
			})
		}
	}
}

// bindIn has jane bound in so many namespaces, n0 and so on, beside a.
func (f *fixture) bindIn(namespaces int) {
	f.Helper()
	for i := range namespaces {
		place := storage.ObjectKey{Space: "acme", Namespace: fmt.Sprint("n", i), Name: "r"}
		f.tell(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, place,
			&rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}}, 5)
		f.tell(schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}, place,
			&rbacv1.RoleBinding{Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "jane"}}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}}, 5)
	}
}

// TestBoundInManyNamespaces has a user who is bound in 10,000 namespaces find what there is in these.
func TestBoundInManyNamespaces(t *testing.T) {
	f := newFixture(t)
	f.bindIn(10_000)
	for _, namespace := range []string{"n0", "n5000", "n9999", "n10000"} {
		row := index.Row{Space: "acme", Resource: secrets, Namespace: namespace, Name: "s", Kind: "Secret"}
		if _, err := f.session.index.Apply(t.Context(), []index.Write{{Key: namespace, Rows: []index.Row{row}}}, 10); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.search("?q=kind:secret"); got != "a,n0,n5000,n9999" {
		t.Errorf("got %s", got)
	}
}
