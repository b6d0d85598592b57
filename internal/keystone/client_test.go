package keystone_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

func newFake(t *testing.T) *fake.Keystone {
	server := fake.New()
	t.Cleanup(server.Close)
	return server
}

func newClient(t *testing.T, server *fake.Keystone, changes ...func(*keystone.Config)) *keystone.Client {
	t.Helper()
	config := keystone.Config{URL: server.URL + "/v3", Clouds: server.Clouds(), Cloud: "asker", Timeout: 5 * time.Second}
	for _, change := range changes {
		change(&config)
	}
	client, err := keystone.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestValidate(t *testing.T) {
	server := newFake(t)
	client := newClient(t, server)
	for name, tc := range map[string]struct {
		changes map[string]any
		want    func(*keystone.Token)
		err     bool
	}{
		"unscoped": {},
		"project": {changes: fake.InProject("p", "d", "r"), want: func(w *keystone.Token) {
			w.Project = &keystone.Owned{Ref: ref("p"), Domain: ref("d")}
			w.Roles = []keystone.Ref{ref("r")}
		}},
		"project that is a domain": {changes: map[string]any{"project": map[string]any{"id": "p", "name": "name of p", "domain": map[string]any{"id": nil, "name": nil}}, "is_domain": true},
			want: func(w *keystone.Token) { w.Project = &keystone.Owned{Ref: ref("p")} }},
		"domain": {changes: fake.InDomain("d", "r", "s"), want: func(w *keystone.Token) {
			w.Domain = &keystone.Ref{ID: "d", Name: "name of d"}
			w.Roles = []keystone.Ref{ref("r"), ref("s")}
		}},
		"system": {changes: map[string]any{"system": map[string]any{"all": true}}, want: func(w *keystone.Token) { w.System.All = true }},
		"application credential": {changes: map[string]any{"application_credential": map[string]any{"id": "c", "name": "n", "restricted": true}},
			want: func(w *keystone.Token) {
				w.ApplicationCredential = &keystone.ApplicationCredential{Ref: keystone.Ref{ID: "c", Name: "n"}, Restricted: true}
			}},
		"trust": {changes: map[string]any{"OS-TRUST:trust": map[string]any{"id": "t", "impersonation": true, "trustee_user": map[string]any{"id": "e"}}},
			want: func(w *keystone.Token) {
				w.Trust = &keystone.Trust{ID: "t", Impersonation: true, Trustee: keystone.Ref{ID: "e"}}
			}},
		"federated": {changes: map[string]any{"user": map[string]any{"id": "u", "name": "name of u", "domain": fake.Ref("home"),
			"OS-FEDERATION": map[string]any{"groups": []any{map[string]any{"id": "g"}}, "protocol": fake.Ref("saml2")}}},
			want: func(w *keystone.Token) { w.User.Federation.Groups = []keystone.Ref{{ID: "g"}} }},
		"no user":           {changes: map[string]any{"user": nil}, err: true},
		"id with a colon":   {changes: fake.InProject("p:r", "d"), err: true},
		"long id":           {changes: fake.InDomain(strings.Repeat("a", 65)), err: true},
		"role without id":   {changes: fake.InProject("p", "d", ""), err: true},
		"two scopes":        {changes: map[string]any{"domain": fake.Ref("d"), "system": map[string]any{"all": true}}, err: true},
		"no expiry":         {changes: map[string]any{"expires_at": nil}, err: true},
		"time that is none": {changes: map[string]any{"issued_at": "yesterday"}, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			server.Know(fake.Token(1), fake.Body("u", tc.changes))
			got, err := client.Validate(t.Context(), keystone.Secret(fake.Token(1)))
			var own *keystone.Error
			if tc.err {
				if !errors.As(err, &own) || errors.Is(err, keystone.ErrNotValid) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &keystone.Token{User: keystone.User{Owned: keystone.Owned{Ref: ref("u"), Domain: ref("home")}},
				Methods: []string{"password"}, AuditIDs: []string{"audit-u"}, IssuedAt: got.IssuedAt, ExpiresAt: got.ExpiresAt}
			if tc.want != nil {
				tc.want(want)
			}
			if len(got.Roles) == 0 {
				got.Roles = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if left := time.Until(got.ExpiresAt); left < 59*time.Minute || left > time.Hour {
				t.Errorf("the token ends in %s", left)
			}
		})
	}
	if logins, _ := server.Counts(); logins != 1 {
		t.Errorf("%d log-ins", logins)
	}
}

func ref(id string) keystone.Ref { return keystone.Ref{ID: id, Name: "name of " + id} }

// TestFailures sees to it that what goes wrong with Keystone says nothing about a token, and
// that errors tell no secrets.
func TestFailures(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		t.Errorf("a request with token %q went to another host", req.Header.Get("X-Subject-Token"))
	}))
	t.Cleanup(elsewhere.Close)
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodGet {
				w.Header().Set("X-Openstack-Request-Id", "req-7")
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}
			return req.Method == http.MethodGet
		}
	}
	token := fake.Token(1)
	for name, tc := range map[string]struct {
		instead func(http.ResponseWriter, *http.Request) bool
		prepare func(*fake.Keystone)
		says    string
		invalid bool
	}{
		"unknown token":                {says: "not valid", invalid: true},
		"404 of what is in front":      {instead: answer(404, "<html>no such service "+token), says: "status 404, request req-7"},
		"JSON 404 of what is in front": {instead: answer(404, `{"message":"no Route matched with those values"}`), says: "status 404"},
		"403":                          {instead: answer(403, `{"error":{"message":"`+token+`"}}`), says: "status 403"},
		"forbidden token":              {instead: answer(403, `{"error":{"code":403,"title":"Forbidden","message":"You are not authorized to perform the requested action."}}`), says: "not valid", invalid: true},
		"forbidden account":            {instead: answer(403, `{"error":{"code":403,"title":"Forbidden","message":"You are not authorized to perform the requested action: identity:validate_token."}}`), says: "it needs the role reader on the system"},
		"500":                          {instead: answer(500, token), says: "status 500, request req-7"},
		"503":                          {instead: answer(503, token), says: "status 503"},
		"429":                          {instead: answer(429, token), says: "status 429"},
		"not JSON":                     {instead: answer(200, "<html>"+token), says: "not one of Keystone"},
		"another JSON":                 {instead: answer(200, `{"`+token+`":1}`), says: "not one of Keystone"},
		"half a body":                  {instead: answer(200, `{"token":{"user":{"id":"`+token), says: "not one of Keystone"},
		"a large body":                 {instead: answer(200, `{"token":{"user":{"id":"`+strings.Repeat("a", 2<<20)+`"}}}`), says: "larger than 1 MiB"},
		"redirect to another host": {instead: func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, elsewhere.URL+"/"+token, http.StatusTemporaryRedirect)
			return true
		}, says: "redirect to another host"},
		"no answer in time": {instead: func(_ http.ResponseWriter, req *http.Request) bool {
			_, _ = io.Copy(io.Discard, req.Body) // or the server does not notice that the client has gone
			<-req.Context().Done()
			return true
		}, says: "no answer in time"},
		"wrong password": {prepare: func(k *fake.Keystone) { k.SetPassword("another") }, says: "status 401, request req-00000000; is the password or the secret right"},
		"not there":      {prepare: func(k *fake.Keystone) { k.Close() }, says: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFake(t)
			client := newClient(t, server, func(c *keystone.Config) { c.Timeout = time.Second })
			if tc.prepare != nil {
				tc.prepare(server)
			}
			server.Instead(tc.instead)
			_, err := client.Validate(t.Context(), keystone.Secret(token))
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("error %q, not %q", err, tc.says)
			}
			if errors.Is(err, keystone.ErrNotValid) != tc.invalid {
				t.Errorf("error %v", err)
			}
			for err := err; err != nil; err = errors.Unwrap(err) {
				for _, text := range []string{fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
					if strings.Contains(text, token[:20]) || strings.Contains(text, fake.Password) || strings.Contains(text, "gAAAAAservice") {
						t.Errorf("the error tells a secret: %s", text)
					}
				}
			}
		})
	}
}

// TestRelogin: a token of the service that has ended is replaced once, whoever waits.
func TestRelogin(t *testing.T) {
	server := newFake(t)
	server.Know(fake.Token(1), fake.Body("u", nil))
	client := newClient(t, server)
	ask := func() (failed int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 50 {
			wg.Go(func() {
				if _, err := client.Validate(t.Context(), keystone.Secret(fake.Token(1))); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed++
				}
			})
		}
		wg.Wait()
		return failed
	}
	if failed := ask(); failed > 0 {
		t.Errorf("%d failures", failed)
	}
	if logins, _ := server.Counts(); logins != 1 {
		t.Errorf("%d log-ins", logins)
	}
	server.EndService() // right after the log-in: there is no other one for a while
	if failed := ask(); failed != 50 {
		t.Errorf("%d failures of 50", failed)
	}
	keystone.ForgetLogin(client)
	if failed := ask(); failed > 0 {
		t.Errorf("%d failures", failed)
	}
	if logins, _ := server.Counts(); logins != 2 {
		t.Errorf("%d log-ins", logins)
	}
	server.SetPassword("another")
	server.EndService()
	keystone.ForgetLogin(client)
	if failed := ask(); failed != 50 {
		t.Errorf("%d failures of 50", failed)
	}
	if logins, _ := server.Counts(); logins != 3 {
		t.Errorf("%d log-ins, where a wrong password is tried once", logins)
	}
}

func TestNew(t *testing.T) {
	for name, tc := range map[string]struct {
		clouds, secure, cloud string
		ca                    string
		err                   string
	}{
		"password":               {clouds: "clouds: {a: {auth: {username: u, user_domain_id: d, password: s3cret}}}"},
		"password by id":         {clouds: "clouds: {a: {auth: {user_id: u, password: s3cret}}}"},
		"application credential": {clouds: "clouds: {a: {auth_type: v3applicationcredential, auth: {application_credential_id: c, application_credential_secret: s3cret}}}"},
		"secure.yaml":            {clouds: "clouds: {a: {auth: {user_id: u}}}", secure: "clouds: {a: {auth: {password: s3cret}}}"},
		"both":                   {clouds: "clouds: {a: {auth: {user_id: u, password: s3cret, application_credential_secret: s3cret}}}", err: "and not both"},
		"no secret":              {clouds: "clouds: {a: {auth: {user_id: u}}}", err: "needs a user and its password"},
		"no user":                {clouds: "clouds: {a: {auth: {password: s3cret}}}", err: "neither username nor user_id"},
		"no credential":          {clouds: "clouds: {a: {auth: {application_credential_secret: s3cret}}}", err: "neither application_credential_id"},
		"another cloud":          {clouds: "clouds: {b: {auth: {user_id: u, password: s3cret}}}", err: `cloud "a" cannot be read`},
		"its names":              {clouds: "clouds: {b: {auth: {user_id: u, password: s3cret}}}", err: `it has no such entry below "clouds", but ["b"]`},
		"a tab":                  {clouds: "clouds:\n  a:\n\tauth: {user_id: u, password: s3cret}\n", err: "(line 3); YAML is not indented by tabs"},
		"a tab in secure.yaml":   {clouds: "clouds: {a: {auth: {user_id: u}}}", secure: "clouds:\n\ta: s3cret\n", err: "secure.yaml is not YAML"},
		"part of the system":     {clouds: "clouds: {a: {auth: {user_id: u, password: s3cret, system_scope: some}}}", err: "its system_scope is not all"},
		"a project of no domain": {clouds: "clouds: {a: {auth: {user_id: u, password: s3cret, project_name: p}}}", err: "has a scope that Keystone cannot find"},
		"no domain":              {clouds: "clouds: {a: {auth: {username: u, password: s3cret, system_scope: all}}}", err: "user_domain_name or user_domain_id"},
		"no domain of a credential's user": {clouds: "clouds: {a: {auth: {username: u, application_credential_name: c, application_credential_secret: s3cret}}}",
			err: "user_domain_name or user_domain_id"},
		"malformed":          {clouds: "clouds: s3cret", err: `cloud "a" cannot be read`},
		"malformed password": {clouds: "clouds: {a: {auth: s3cret}}", err: `cloud "a" cannot be read`},
		"no authority":       {clouds: "clouds: {a: {auth: {user_id: u, password: s3cret}}}", ca: "none", err: "no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keystone.New(keystone.Config{URL: "https://k.example/v3", Clouds: []byte(tc.clouds), Secure: []byte(tc.secure), Cloud: "a", CA: []byte(tc.ca)})
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, not %q", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// TestAuthorities: Keystone is who the file says.
func TestAuthorities(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, tc := range map[string]struct {
		ca   []byte
		says string
	}{
		"known":   {ca: authority, says: "status 404"},
		"unknown": {says: "certificate"},
	} {
		client, err := keystone.New(keystone.Config{URL: server.URL + "/v3", CA: tc.ca, Clouds: new(fake.Keystone).Clouds(), Cloud: "asker", Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Validate(t.Context(), keystone.Secret(fake.Token(1))); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestURL: clouds give the URL of Keystone with its version or without, and below a path.
func TestURL(t *testing.T) {
	server := newFake(t)
	server.Know(fake.Token(1), fake.Body("jane", nil))
	below := httptest.NewServer(http.StripPrefix("/identity", server.Config.Handler))
	t.Cleanup(below.Close)
	for _, url := range []string{server.URL, server.URL + "/", server.URL + "/v3", server.URL + "/v3/", below.URL + "/identity", below.URL + "/identity/", below.URL + "/identity/v3"} {
		client := newClient(t, server, func(c *keystone.Config) { c.URL = url })
		if _, err := client.Validate(t.Context(), keystone.Secret(fake.Token(1))); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestSecret(t *testing.T) {
	secret := keystone.Secret("s3cret")
	for _, text := range []string{fmt.Sprint(secret), fmt.Sprintf("%q %s %v %+v %#v", secret, secret, secret, secret, struct{ S keystone.Secret }{secret})} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("printed as %s", text)
		}
	}
}

// TestPrintable checks that names change nothing where they are shown, and have an end.
func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"Zürich 1": "Zürich 1", "a\x1b[2Jb\n": "a\ufffd[2Jb\ufffd", strings.Repeat("é", 256): strings.Repeat("é", 255)} {
		if got := keystone.Printable(name); got != want {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}
