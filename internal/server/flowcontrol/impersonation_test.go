package flowcontrol

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestInTurn checks that a tenant is authorized to impersonate by one processor at most, and that others do not wait
// for it.
func TestInTurn(t *testing.T) {
	of := func(t *testing.T, n tenant.Name) context.Context {
		return tenant.WithRequest(t.Context(), &tenant.Request{Authenticated: n})
	}
	for name, tc := range map[string]struct {
		verb string
		of   []tenant.Name
		want int64 // at once
	}{
		"of a tenant":           {"impersonate", []tenant.Name{"acme"}, 1},
		"constrained":           {"impersonate-on:user-info:get", []tenant.Name{"acme"}, 1},
		"of two tenants":        {"impersonate", []tenant.Name{"acme", "globex"}, 2},
		"of the system's users": {"impersonate", []tenant.Name{tenant.System}, 10},
		"others":                {"get", []tenant.Name{"acme"}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				in := InTurn(authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
					n := now.Add(1)
					defer now.Add(-1)
					if n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Second)
					return authorizer.DecisionAllow, "", nil
				}))
				var all sync.WaitGroup
				for i := range 10 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						if decision, _, err := in.Authorize(of(t, tc.of[i%len(tc.of)]), authorizer.AttributesRecord{Verb: tc.verb}); decision != authorizer.DecisionAllow || err != nil {
							t.Errorf("%v, %v", decision, err)
						}
					})
				}
				all.Wait()
				if most.Load() != tc.want {
					t.Errorf("%d at once, not %d", most.Load(), tc.want)
				}
			})
		})
	}
}

// TestFewImpersonate checks that requests beyond those of a tenant that may wait to be authorized to impersonate are
// refused, and no others.
func TestFewImpersonate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authorize := make(chan struct{})
		in := InTurn(authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if n, err := tenant.OfUser(a.GetUser()); n == "acme" && err == nil {
				<-authorize
			}
			return authorizer.DecisionAllow, "", nil
		}))
		served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		handler := WithSent(impersonation.WithImpersonation(served, in, serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()), time.Minute)
		answer := func(of tenant.Name, as string) *httptest.ResponseRecorder {
			u := &user.DefaultInfo{Name: "u", Extra: map[string][]string{tenant.UserExtraKey: {string(of)}}}
			ctx := tenant.WithRequest(request.WithUser(t.Context(), u), &tenant.Request{Authenticated: of})
			req := httptest.NewRequestWithContext(request.WithRequestInfo(ctx, &request.RequestInfo{}), http.MethodGet, "/api", nil)
			if as != "" {
				req.Header.Set("Impersonate-User", as)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, req)
			return w
		}
		var waiting sync.WaitGroup
		for range 1 + maxImpersonating { // one has its turn
			waiting.Go(func() {
				if w := answer("acme", "v"); w.Code != http.StatusOK {
					t.Errorf("one that waited is answered %d", w.Code)
				}
			})
		}
		synctest.Wait()
		if w := answer("acme", "v"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "wait to be authorized to impersonate") {
			t.Errorf("one beyond those that wait is answered %d with %v and %s", w.Code, w.Header(), w.Body)
		}
		ctx := context.WithValue(tenant.WithRequest(t.Context(), &tenant.Request{Authenticated: "acme"}), sentKey{}, sent{rejection: &rejection{}})
		once := func() authorizer.Decision {
			decision, _, _ := in.Authorize(ctx, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: "impersonate"})
			return decision
		}
		if decision := once(); decision != authorizer.DecisionDeny {
			t.Errorf("one beyond those that wait: %v", decision)
		}
		for of, as := range map[tenant.Name]string{"acme": "", "globex": "v", tenant.System: "v"} {
			if w := answer(of, as); w.Code != http.StatusOK {
				t.Errorf("of tenant %q, as %q: %d", of, as, w.Code)
			}
		}
		close(authorize)
		waiting.Wait()
		if decision := once(); decision != authorizer.DecisionDeny {
			t.Errorf("one that is answered so, asked again when nobody waits: %v", decision)
		}
	})
}
