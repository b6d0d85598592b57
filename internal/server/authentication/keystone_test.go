package authentication

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/atomicfile"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/identities"
	"github.com/tenantry/tenantry/test/keystone/fake"
	"github.com/tenantry/tenantry/test/until"
)

// newKeystone starts a Keystone and writes a configuration for it.
func newKeystone(t testing.TB) (server *fake.Keystone, config string) {
	t.Helper()
	server = fake.New()
	t.Cleanup(server.Close)
	config = filepath.Join(t.TempDir(), "keystone.yaml")
	if err := os.WriteFile(filepath.Join(filepath.Dir(config), "clouds.yaml"), server.Clouds(), 0o600); err != nil {
		t.Fatal(err)
	}
	writeKeystone(t, config, "url: "+server.URL+"/v3\ncloudsFile: clouds.yaml\ncloud: asker\nrequestTimeout: 2s\n")
	return server, config
}

func writeKeystone(t testing.TB, path, content string) {
	t.Helper()
	content = "apiVersion: config.tenantry.io/v1alpha1\nkind: KeystoneConfiguration\n" + content
	if err := atomicfile.Write(path, []byte(content)); err != nil { // or half of one is read again
		t.Fatal(err)
	}
}

// domains are the tenants of a Keystone "default": acme has the domain d-acme, again, which
// was made a minute ago, d-again, and two have d-twice.
func domains(config *Config) {
	config.OfDomain = func(domain v1alpha1.TenantKeystone) ([]tenant.Name, types.UID, bool) {
		switch {
		case domain.DomainID == "d-unread":
			return nil, "", false
		case domain.Keystone != "default":
			return nil, "", true
		case domain.DomainID == "d-twice":
			return []tenant.Name{"one", "two"}, "", true
		case domain.DomainID == "d-acme" || domain.DomainID == "d-again":
			n := tenant.Name(strings.TrimPrefix(domain.DomainID, "d-"))
			return []tenant.Name{n}, "uid-" + types.UID(n), true
		case domain.DomainID == "d-remade":
			return []tenant.Name{"remade"}, "uid-of-before", true
		default:
			return nil, "", true
		}
	}
	config.DomainOf = func(n tenant.Name) (v1alpha1.TenantKeystone, bool) {
		switch n {
		case "acme", "again", "remade":
			return v1alpha1.TenantKeystone{Keystone: "default", DomainID: "d-" + string(n)}, true
		case "one", "two":
			return v1alpha1.TenantKeystone{Keystone: "default", DomainID: "d-twice"}, true
		case "elsewhere":
			return v1alpha1.TenantKeystone{Keystone: "another", DomainID: "d-acme"}, true
		default:
			return v1alpha1.TenantKeystone{}, n != "unread"
		}
	}
	config.TenantUID = func(_ context.Context, n tenant.Name) (types.UID, error) { return "uid-" + types.UID(n), nil }
	since := time.Now().Add(-time.Minute)
	config.Since = func(_ context.Context, n tenant.Name) (time.Time, error) {
		if n == "again" {
			return since, nil
		}
		return time.Time{}, nil
	}
}

func TestTenantsOfKeystone(t *testing.T) {
	server, config := newKeystone(t)
	system := map[string]any{"system": map[string]any{"all": true}, "roles": []any{fake.Ref("r")}}
	early := fake.InProject("p", "d-again", "r")
	early["issued_at"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, tc := range map[string]struct {
		changes map[string]any
		want    string
		allowed string // with --keystone-allow-system, if it differs
	}{
		"project": {changes: fake.InProject("p", "d-acme", "r"), want: "keystone:u of acme"},
		"domain":  {changes: fake.InDomain("d-acme", "r"), want: "keystone:u of acme"},
		"user's domain alone has a tenant": {changes: map[string]any{"user": map[string]any{"id": "u", "name": "n", "domain": fake.Ref("d-acme")},
			"domain": fake.Ref("d-other")}, want: "keystone:u of "},
		"domain of nobody":      {changes: fake.InProject("p", "d-other", "r"), want: "keystone:u of "},
		"domain default":        {changes: fake.InProject("p", "default", "r"), want: "keystone:u of "},
		"unscoped":              {want: "keystone:u of "},
		"domain of two":         {changes: fake.InDomain("d-twice", "r"), want: "refused"},
		"tenants are not read":  {changes: fake.InDomain("d-unread", "r"), want: "unavailable"},
		"tenant was made again": {changes: fake.InDomain("d-remade", "r"), want: "refused"},
		"issued early":          {changes: early, want: "refused"},
		"issued since":          {changes: fake.InProject("p", "d-again", "r"), want: "keystone:u of again"},
		"system":                {changes: system, want: "keystone:u of ", allowed: "keystone:u of system"},
	} {
		t.Run(name, func(t *testing.T) {
			server.Know(fake.Token(1), fake.Body("u", tc.changes))
			for _, allow := range []bool{false, true} {
				a := build(t, "fallback", func(o *Options) { o.KeystoneConfig, o.KeystoneSystem = config, allow }, domains)
				want := tc.want
				if allow && tc.allowed != "" {
					want = tc.allowed
				}
				if got := checkKeystone(t, a, fake.Token(1)); got != want {
					t.Errorf("system allowed: %v: %q, not %q", allow, got, want)
				}
			}
		})
	}
}

// checkKeystone is check, which tells outages from refusals.
func checkKeystone(t testing.TB, a authenticator.Request, token string) string {
	t.Helper()
	_, _, err := a.AuthenticateRequest(newRequest(t, "Bearer "+token))
	if errors.Is(err, identity.ErrUnavailable) {
		return "unavailable"
	}
	return check(t, a, newRequest(t, "Bearer "+token))
}

// TestPasswordsOfKeystone: the URL says of which domain a user is, and names of the file are
// the file's.
func TestPasswordsOfKeystone(t *testing.T) {
	server, config := newKeystone(t)
	content, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	without := file(t, content)
	if err := os.WriteFile(filepath.Join(filepath.Dir(without), "clouds.yaml"), server.Clouds(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, append(content, "passwords: Accept\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	const right = "pw-s3cret"
	people := []fake.Person{{Domain: "d-acme", Name: "filed", Password: right}}
	for _, domain := range []string{"d-acme", "d-again", "d-twice", "d-remade"} {
		people = append(people, fake.Person{Domain: domain, Name: "jane", Password: right})
	}
	server.SetPeople(people...)
	passwords := file(t, []byte("secret,filed,1,,a\n"))
	a := build(t, "fallback", func(o *Options) { o.KeystoneConfig, o.BasicAuthFile = config, passwords }, domains)
	off := build(t, "fallback", func(o *Options) { o.KeystoneConfig, o.BasicAuthFile = without, passwords }, domains)
	for name, tc := range map[string]struct {
		of             authenticator.Request
		space          tenant.Scope
		user, password string
		want           string
		asked          bool
	}{
		"right":                       {a, "acme", "jane", right, "keystone:jane of acme", true},
		"wrong":                       {a, "acme", "jane", "x", "refused", true},
		"nobody":                      {a, "acme", "john", right, "refused", true},
		"no tenant in the URL":        {a, "", "jane", right, "refused", false},
		"system":                      {a, tenant.Scope(tenant.System), "jane", right, "refused", false},
		"all tenants":                 {a, tenant.All, "jane", right, "refused", false},
		"tenant without domain":       {a, "other", "jane", right, "refused", false},
		"tenant of another Keystone":  {a, "elsewhere", "jane", right, "refused", false},
		"tenants are not read":        {a, "unread", "jane", right, "unavailable", false},
		"domain of two":               {a, "one", "jane", right, "refused", true},
		"tenant was made again":       {a, "remade", "jane", right, "refused", true},
		"since the tenant was made":   {a, "again", "jane", right, "keystone:jane of again", true},
		"of the file":                 {a, "acme", "filed", "secret", "filed of a", false},
		"of the file, not Keystone's": {a, "acme", "filed", right, "refused", false},
		"not accepted":                {off, "acme", "jane", right, "refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			posts := 0
			server.Instead(func(_ http.ResponseWriter, req *http.Request) bool {
				if req.Method == http.MethodPost && req.URL.RawQuery != "" {
					posts++
				}
				return false
			})
			ask := func() *http.Request {
				req := newRequest(t, "")
				tenant.RequestFrom(req.Context()).Requested = tc.space
				req.SetBasicAuth(tc.user, tc.password)
				return req
			}
			got := "unavailable"
			if _, _, err := tc.of.AuthenticateRequest(ask()); !errors.Is(err, identity.ErrUnavailable) {
				got = check(t, tc.of, ask())
			}
			if got != tc.want || (posts == 1) != tc.asked || posts > 1 {
				t.Errorf("%q, %d attempts", got, posts)
			}
		})
	}
}

// TestKeystoneIsLast: whoever else knows a token keeps it from Keystone, and an outage is not
// theirs.
func TestKeystoneIsLast(t *testing.T) {
	server, config := newKeystone(t)
	webhook := identities.NewWebhook()
	t.Cleanup(webhook.Close)
	webhook.Know(fake.Token(2), authenticationv1.UserInfo{Username: "hook", Extra: map[string]authenticationv1.ExtraValue{extraKey: {"a"}}})
	webhook.Know(fake.Token(3), authenticationv1.UserInfo{Username: "keystone:u", Extra: map[string]authenticationv1.ExtraValue{extraKey: {"a"}}})
	kubeconfig, err := webhook.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	a := build(t, "", func(o *Options) {
		o.KeystoneConfig = config
		o.Upstream.TokenFile.TokenFile = file(t, []byte(fake.Token(1)+",jane,1,\"g,keystone:project:p:r\",,a\n"))
		o.BasicAuthFile = file(t, []byte("secret,jane,1,,a\n"))
		o.Upstream.WebHook.ConfigFile = file(t, kubeconfig)
	}, domains)
	server.Know(fake.Token(4), fake.Body("u", fake.InProject("p", "d-acme", "r")))
	others := func() {
		t.Helper()
		for token, want := range map[string]string{
			fake.Token(1): "jane of a", fake.Token(2): "hook of a", fake.Token(3): "refused", "system-account": "system:serviceaccount:ns:sa of system",
			webToken(`{"iss":"x"}`): "refused", "nonsense": "refused",
		} {
			if got := checkKeystone(t, a, token); got != want {
				t.Errorf("token %.20s: %q, not %q", token, got, want)
			}
		}
		basic := newRequest(t, "")
		basic.SetBasicAuth("jane", "secret")
		if got := check(t, a, basic); got != "jane of a" {
			t.Errorf("password: %q", got)
		}
		if got := check(t, a, newRequest(t, "")); got != "system:anonymous of " {
			t.Errorf("nobody: %q", got)
		}
	}
	others()
	if logins, lookups := server.Counts(); logins+lookups != 0 {
		t.Errorf("Keystone was asked %d times, after %d log-ins", lookups, logins)
	}
	response, _, err := a.AuthenticateRequest(newRequest(t, "Bearer "+fake.Token(1)))
	if err != nil || strings.Contains(strings.Join(response.User.GetGroups(), " "), "keystone:") {
		t.Errorf("a file gives %v, %v", response, err)
	}
	if got := checkKeystone(t, a, fake.Token(4)); got != "keystone:u of acme" {
		t.Errorf("token of Keystone: %q", got)
	}
	server.Close()
	others()
	if got := checkKeystone(t, a, fake.Token(4)); got != "keystone:u of acme" {
		t.Errorf("remembered token: %q", got)
	}
	if got := checkKeystone(t, a, fake.Token(5)); got != "unavailable" {
		t.Errorf("new token: %q", got)
	}
}

func TestUnavailable(t *testing.T) {
	failing := func(err error) authenticator.Request {
		return authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, err })
	}
	for name, tc := range map[string]struct {
		err    error
		status int
	}{
		"unavailable":               {identity.Unavailable(errors.New("s3cret")), http.StatusServiceUnavailable},
		"unavailable, among others": {utilerrors.NewAggregate([]error{errors.New("x"), errors.Join(errors.New("y"), identity.Unavailable(errors.New("s3cret")))}), http.StatusServiceUnavailable},
		"limited":                   {&identity.Limited{After: 1500 * time.Millisecond}, http.StatusTooManyRequests},
		"limited, among others":     {utilerrors.NewAggregate([]error{errors.Join(errors.New("x"), &identity.Limited{After: time.Second})}), http.StatusTooManyRequests},
		"refused":                   {identity.Refuse("x"), http.StatusUnauthorized},
		"unknown":                   {nil, http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request is served") })
			chain := genericapifilters.WithAuthentication(next, Unavailable(failing(tc.err)), genericapifilters.Unauthorized(legacyscheme.Codecs), nil, nil)
			handler := WithChallenge(WithUnavailable(chain, legacyscheme.Codecs))
			for _, accept := range []string{"", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"} {
				req := httptest.NewRequest(http.MethodGet, "https://server/api/v1/pods", nil)
				req.Header.Set("Accept", accept)
				req = req.WithContext(request.WithRequestInfo(req.Context(), &request.RequestInfo{IsResourceRequest: true, APIVersion: "v1", Resource: "pods"}))
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, req)
				unavailable := tc.status != http.StatusUnauthorized
				if answer.Code != tc.status || (answer.Header().Get("Retry-After") != "") != unavailable || (answer.Header().Get("WWW-Authenticate") == "") != unavailable {
					t.Errorf("%s: status %d, header %v", accept, answer.Code, answer.Header())
				}
				if strings.Contains(answer.Body.String(), "s3cret") {
					t.Errorf("%s: the answer tells the reason", accept)
				}
				if accept != "" && accept != "application/json" {
					continue
				}
				var status metav1.Status
				if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil || int(status.Code) != tc.status {
					t.Errorf("%s: body %s, %v", accept, answer.Body, err)
				}
			}
		})
	}
}

// TestReviewUnavailable: a review of which nobody knows the answer denies nothing.
func TestReviewUnavailable(t *testing.T) {
	failing := authenticator.TokenFunc(func(context.Context, string) (*authenticator.Response, bool, error) {
		return nil, false, identity.Unavailable(errors.New("away"))
	})
	for _, n := range []tenant.Name{tenant.System, "acme"} {
		reviews := NewTokenReviews(bearertoken.New(failing), nil)
		review := &authenticationapi.TokenReview{Spec: authenticationapi.TokenReviewSpec{Token: "token"}}
		_, err := reviews.Create(tenant.WithSpace(t.Context(), n), review, nil, &metav1.CreateOptions{})
		if _, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !retry {
			t.Errorf("in %q: %v", n, err)
		}
	}
}

// TestKeystoneReload: files that change are read again, and wrong ones are not used.
func TestKeystoneReload(t *testing.T) {
	server, path := newKeystone(t)
	keystoneReloads.Create(nil)
	reloads := func(result string) float64 {
		value, err := testutil.GetCounterMetricValue(keystoneReloads.WithLabelValues(result))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	config := Config{}
	domains(&config)
	k := &keystoneUsers{path: path, ofDomain: config.OfDomain, period: time.Millisecond}
	source, err := k.read(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.current.Store(source)
	go k.run(t.Context())
	failures, successes := reloads("failure"), reloads("success")
	valid, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeKeystone(t, path, "url: "+server.URL+"\nclouds: x\n")
	until.True(t, "a wrong file is noticed", func() bool { return reloads("failure") == failures+1 })
	if k.current.Load() != source {
		t.Error("a wrong file is used")
	}
	if err := atomicfile.Write(path, append(valid, "name: other\n"...)); err != nil {
		t.Fatal(err)
	}
	until.True(t, "a changed file is read", func() bool { return k.current.Load() != source && k.current.Load().name == "other" })
	source = k.current.Load()
	secure := []byte("clouds: {asker: {auth: {password: another}}}\n")
	if err := atomicfile.Write(filepath.Join(filepath.Dir(path), "secure.yaml"), secure); err != nil {
		t.Fatal(err)
	}
	until.True(t, "a changed secret is read", func() bool { return k.current.Load() != source })
	if got := reloads("success"); got < successes+2 {
		t.Errorf("%v reloads", got-successes)
	}
}
