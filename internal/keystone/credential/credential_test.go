package credential

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

const secret = "s3cr3t-0f-jane"

// fake is a Keystone that lets everybody in who does not say "wrong".
type fake struct {
	*httptest.Server
	// answer replaces the answers if it is set.
	answer http.HandlerFunc

	mu      sync.Mutex
	logins  []string // bodies
	checks  int
	revoked map[string]bool
	life    time.Duration
	skew    time.Duration
}

func newFake(t *testing.T) *fake {
	f := &fake{revoked: map[string]bool{}, life: time.Hour}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("X-Openstack-Request-Id", "req-00000000-0000-0000-0000-000000000000")
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	if r.Method == http.MethodPost {
		f.logins = append(f.logins, body.String())
	} else {
		f.checks++
	}
	switch subject := r.Header.Get("X-Subject-Token"); {
	case f.answer != nil:
		f.answer(w, r)
	case r.URL.Path != "/v3/auth/tokens":
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodHead && (f.revoked[subject] || r.Header.Get("X-Auth-Token") != subject):
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodHead:
	case strings.Contains(body.String(), "wrong"):
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = body.WriteTo(w)
	default:
		now := time.Now().Add(f.skew)
		w.Header().Set("X-Subject-Token", fmt.Sprintf("token-%d", len(f.logins)))
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{"issued_at": now, "expires_at": now.Add(f.life)}})
	}
}

// count returns the numbers of log-ins and checks.
func (f *fake) count() [2]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return [2]int{len(f.logins), f.checks}
}

// isolate gives a test an environment without clouds, and a working directory with these files.
func isolate(t *testing.T, files map[string]string) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, value) // which restores it
			_ = os.Unsetenv(name)
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv(execInfo, "")
	t.Chdir(t.TempDir())
	for name, content := range files {
		write(t, name, content)
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get runs the plugin.
func get(t *testing.T, o Options) (clientauthentication.ExecCredential, error) {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	var out bytes.Buffer
	err := o.Run(t.Context(), &out)
	var c clientauthentication.ExecCredential
	if err == nil {
		if err := json.Unmarshal(out.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
	} else if out.Len() > 0 {
		t.Errorf("%q is printed with an error", out.String())
	}
	return c, err
}

// mustGet returns the token that the plugin prints.
func mustGet(t *testing.T, o Options) string {
	t.Helper()
	c, err := get(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return c.Status.Token
}

// jane is a cloud with a user in one domain and a project in another.
func jane(url string) string {
	return `
clouds:
  jane:
    auth:
      auth_url: ` + url + `/v3/
      username: jane
      password: ` + secret + `
      user_domain_name: acme
      project_name: web
      project_domain_id: "0123"
`
}

const janeWeb = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"jane","password":"s3cr3t-0f-jane","domain":{"name":"acme"}}}},` +
	`"scope":{"project":{"name":"web","domain":{"id":"0123"}}}}}`

// TestLogin checks what is sent for clouds, variables and flags.
func TestLogin(t *testing.T) {
	f := newFake(t)
	password := func(user, scope string) string {
		return `{"auth":{"identity":{"methods":["password"],"password":{"user":` + user + `}}` + scope + `}}`
	}
	for name, test := range map[string]struct {
		files    map[string]string
		env      map[string]string
		cloud    string
		settings map[string]string
		want     string
	}{
		"the only cloud": {
			files: map[string]string{"clouds.yaml": jane(f.URL)},
			want:  janeWeb,
		},
		"a cloud of the user, by name": {
			files: map[string]string{"../home/.config/openstack/clouds.yml": jane(f.URL) + "  other: {}\n"},
			env:   map[string]string{"OS_CLOUD": "jane", "XDG_CONFIG_HOME": "../home/.config"},
			want:  janeWeb,
		},
		"another file, and variables that are not of the cloud": {
			files: map[string]string{"clouds.yaml": "clouds: {jane: {}}", "x/mine": jane(f.URL)},
			env: map[string]string{"OS_CLIENT_CONFIG_FILE": "x/mine", "OS_PASSWORD": "other", "OS_AUTH_URL": "http://192.0.2.1", "OS_PROJECT_ID": "other",
				"OS_PASSCODE": "123"},
			cloud: "jane",
			want:  janeWeb,
		},
		"secrets beside it, anchors and profiles": {
			files: map[string]string{
				"clouds.yaml":        "x: &auth {username: jane, password: other, user_domain_name: acme}\nclouds: {jane: {profile: all, auth: {<<: *auth, project_name: web}}}",
				"secure.yaml":        "clouds: {jane: {auth: {password: " + secret + "}}}",
				"clouds-public.yaml": "public-clouds: {all: {auth: {auth_url: " + f.URL + `, project_domain_id: "0123", username: nobody}}}`,
			},
			want: janeWeb,
		},
		"a password that is a number in YAML": {
			files: map[string]string{"clouds.yaml": "clouds: {jane: {auth: {auth_url: " + f.URL + ", user_id: u1, password: 0123, system_scope: all}}}"},
			want:  password(`{"id":"u1","password":"0123"}`, `,"scope":{"system":{"all":true}}`),
		},
		"a flag replaces the scope": {
			files:    map[string]string{"clouds.yaml": jane(f.URL)},
			settings: map[string]string{"domain_name": "globex"},
			want:     password(`{"name":"jane","password":"s3cr3t-0f-jane","domain":{"name":"acme"}}`, `,"scope":{"domain":{"name":"globex"}}`),
		},
		"flags replace names and domains": {
			files:    map[string]string{"clouds.yaml": jane(f.URL)},
			settings: map[string]string{"project_name": "data", "project_domain_name": "globex", "user_id": "u1"},
			want:     password(`{"id":"u1","password":"s3cr3t-0f-jane"}`, `,"scope":{"project":{"name":"data","domain":{"name":"globex"}}}`),
		},
		"a domain for user and project": {
			env: map[string]string{"OS_AUTH_URL": f.URL, "OS_USERNAME": "jane", "OS_PASSWORD": "p", "OS_DOMAIN_NAME": "acme", "OS_TENANT_NAME": "web"},
			want: password(`{"name":"jane","password":"p","domain":{"name":"acme"}}`,
				`,"scope":{"project":{"name":"web","domain":{"name":"acme"}}}`),
		},
		"a default domain, and an id that is believed": {
			env: map[string]string{"OS_AUTH_URL": f.URL, "OS_USERNAME": "jane", "OS_PASSWORD": "p", "OS_DEFAULT_DOMAIN": "default",
				"OS_PROJECT_ID": "p1", "OS_PROJECT_NAME": "web"},
			want: password(`{"name":"jane","password":"p","domain":{"id":"default"}}`, `,"scope":{"project":{"id":"p1"}}`),
		},
		"a user of one domain, a token for another": {
			env: map[string]string{"OS_AUTH_URL": f.URL, "OS_USERNAME": "jane", "OS_PASSWORD": "p", "OS_USER_DOMAIN_NAME": "acme",
				"OS_DOMAIN_ID": "d1"},
			want: password(`{"name":"jane","password":"p","domain":{"name":"acme"}}`, `,"scope":{"domain":{"id":"d1"}}`),
		},
		"no scope": {
			env:  map[string]string{"OS_AUTH_URL": f.URL, "OS_USERID": "u1", "OS_PASSWORD": "p"},
			want: password(`{"id":"u1","password":"p"}`, ""),
		},
		"a trust": {
			env:  map[string]string{"OS_AUTH_URL": f.URL, "OS_USER_ID": "u1", "OS_PASSWORD": "p", "OS_TRUST_ID": "t1"},
			want: password(`{"id":"u1","password":"p"}`, `,"scope":{"OS-TRUST:trust":{"id":"t1"}}`),
		},
		"a token, and who it is of": {
			env:  map[string]string{"OS_AUTH_URL": f.URL, "OS_TOKEN": "t", "OS_USERNAME": "jane", "OS_PROJECT_ID": "p1"},
			want: `{"auth":{"identity":{"methods":["token"],"token":{"id":"t"}},"scope":{"project":{"id":"p1"}}}}`,
		},
		"an application credential": {
			env:  map[string]string{"OS_AUTH_URL": f.URL, "OS_AUTH_TYPE": "v3applicationcredential", "OS_APPLICATION_CREDENTIAL_ID": "a1", "OS_APPLICATION_CREDENTIAL_SECRET": "s"},
			want: `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"a1","secret":"s"}}}}`,
		},
		"an application credential by name": {
			env: map[string]string{"OS_AUTH_URL": f.URL, "OS_APPLICATION_CREDENTIAL_NAME": "a", "OS_APPLICATION_CREDENTIAL_SECRET": "s",
				"OS_USERNAME": "jane", "OS_USER_DOMAIN_ID": "d1"},
			want: `{"auth":{"identity":{"methods":["application_credential"],` +
				`"application_credential":{"name":"a","secret":"s","user":{"name":"jane","domain":{"id":"d1"}}}}}}`,
		},
		"a passcode": {
			files: map[string]string{"clouds.yaml": "clouds: {jane: {auth_type: v3totp, auth: {auth_url: " + f.URL + ", user_id: u1}}}"},
			env:   map[string]string{"OS_PASSCODE": "123456"},
			want:  `{"auth":{"identity":{"methods":["totp"],"totp":{"user":{"id":"u1","passcode":"123456"}}}}}`,
		},
		"a password and a passcode": {
			env: map[string]string{"OS_AUTH_URL": f.URL, "OS_USER_ID": "u1", "OS_PASSWORD": "p", "OS_PASSCODE": "123456"},
			want: `{"auth":{"identity":{"methods":["password","totp"],"password":{"user":{"id":"u1","password":"p"}},` +
				`"totp":{"user":{"id":"u1","passcode":"123456"}}}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t, test.files)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			f.logins = nil
			mustGet(t, Options{Cloud: test.cloud, Settings: test.settings})
			var got, want any
			if err := errors.Join(json.Unmarshal([]byte(f.logins[0]), &got), json.Unmarshal([]byte(test.want), &want)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the request (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMistakes checks that errors say what is wrong and where, in one line and without secrets.
func TestMistakes(t *testing.T) {
	f := newFake(t)
	cloud := func(settings string) map[string]string {
		return map[string]string{"clouds.yaml": "clouds: {jane: {" + settings + "}}"}
	}
	auth := func(settings string) map[string]string {
		return cloud("auth: {auth_url: " + f.URL + ", " + settings + "}")
	}
	for name, test := range map[string]struct {
		files    map[string]string
		env      map[string]string
		cloud    string
		settings map[string]string
		want     []string
	}{
		"nothing":          {want: []string{"no cloud is named", "/.config/openstack, /etc/openstack", "OS_AUTH_URL"}},
		"no such file":     {env: map[string]string{"OS_CLIENT_CONFIG_FILE": "nowhere"}, want: []string{"OS_CLIENT_CONFIG_FILE", "open nowhere"}},
		"no secure file":   {files: auth("user_id: u"), env: map[string]string{"OS_CLIENT_SECURE_FILE": "nowhere"}, want: []string{"OS_CLIENT_SECURE_FILE", "open nowhere"}},
		"no clouds":        {files: map[string]string{"clouds.yaml": ""}, want: []string{"/clouds.yaml has no clouds"}},
		"another cloud":    {files: auth("a: b"), cloud: "june", want: []string{`cloud "june" is not in /`, `/clouds.yaml, which has ["jane"]`, "--os-cloud"}},
		"several clouds":   {files: map[string]string{"clouds.yaml": "clouds: {a: {}, b: {}}"}, want: []string{`has the clouds ["a" "b"]`, "OS_CLOUD"}},
		"an unknown alias": {files: auth("password: *" + secret), want: []string{"/clouds.yaml is not a file of clouds in YAML"}},
		"a list of clouds": {files: map[string]string{"clouds.yaml": "clouds:\n  jane:\n    auth: " + secret}, want: []string{"/clouds.yaml is not", "(line 3)"}},
		"an empty cloud":   {files: cloud(""), want: []string{`cloud "jane" of /`, "auth.auth_url is missing"}},
		"no user":          {files: auth("password: " + secret), want: []string{"auth.username is missing, or auth.user_id"}},
		"no domain":        {files: auth("username: u, password: " + secret), want: []string{"auth.user_domain_name is missing"}},
		"no password":      {files: auth("user_id: u"), want: []string{"auth.password is missing, and nobody can be asked for it", "secure.yaml"}},
		"no passcode":      {files: auth("user_id: u, auth_type: totp"), want: []string{"set OS_PASSCODE"}},
		"no token":         {files: auth("auth_type: token"), want: []string{"auth.token is missing"}},
		"no credential":    {files: auth("auth_type: v3applicationcredential"), want: []string{"auth.application_credential_id is missing"}},
		"no secret":        {files: auth("application_credential_id: a"), want: []string{"auth.application_credential_secret is missing"}},
		"another type":     {files: auth("auth_type: v3oidcpassword"), want: []string{`auth_type is "v3oidcpassword", and must be password`, "auth.token"}},
		"a project of no domain": {files: auth("user_id: u, project_name: web"),
			want: []string{"auth.project_domain_name is missing"}},
		"two scopes": {files: auth("user_id: u, project_id: p, system_scope: all"), want: []string{"auth.system_scope and auth.project_id exclude each other"}},
		"two scopes of flags": {files: auth("user_id: u"), settings: map[string]string{"project_id": "p", "trust_id": "t"},
			want: []string{"--os-trust-id and --os-project-id exclude each other"}},
		"part of the system":    {files: auth("user_id: u, system_scope: some"), want: []string{`auth.system_scope is "some", and must be all`}},
		"scope of a credential": {files: auth("application_credential_id: a, project_id: p"), want: []string{"auth.project_id does not go with an application credential"}},
		"version 2":             {env: map[string]string{"OS_AUTH_URL": "https://h/v2.0"}, want: []string{"the variables OS_*: OS_AUTH_URL ends in /v2.0"}},
		"a password in the URL": {env: map[string]string{"OS_AUTH_URL": "https://jane:" + secret + "@h/v3"}, want: []string{"OS_AUTH_URL is not of the form"}},
		"no URL":                {files: auth("user_id: u"), settings: map[string]string{"auth_url": "h:5000"}, want: []string{"--os-auth-url is not of the form"}},
		"no authorities":        {files: cloud("cacert: nowhere, auth: {auth_url: https://h, user_id: u}"), want: []string{"cacert: open nowhere"}},
		"a key alone":           {files: cloud("key: k, auth: {auth_url: https://h, user_id: u}"), want: []string{"cert and key go together"}},
		"perhaps verified":      {files: cloud("verify: maybe, auth: {auth_url: https://h, user_id: u}"), want: []string{"verify must be true or false"}},
		"a wrong password": {files: auth("user_id: u, password: wrong-" + secret),
			want: []string{`refused user "u" (401 Unauthorized, request req-00000000-0000-0000-0000-000000000000)`, "is auth.password right"}},
		"another path": {files: cloud("auth: {auth_url: " + f.URL + "/identity, user_id: u, password: p}"), want: []string{"answered 404 Not Found", "auth.auth_url"}},
		"nobody there": {files: cloud("auth: {auth_url: http://127.0.0.1:1, user_id: u, password: p}"),
			want: []string{"asking Keystone at http://127.0.0.1:1/v3", "connection refused", "is auth.auth_url right?"}},
		"no TLS": {files: cloud("auth: {auth_url: " + strings.Replace(f.URL, "http", "https", 1) + ", user_id: u, password: p}"), want: []string{"does not speak TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t, test.files)
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			_, err := get(t, Options{Cloud: test.cloud, Settings: test.settings})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has a secret, or more than one line", err)
			}
		})
	}
}

// TestAnswers checks that errors have nothing of the bodies of answers, which may echo what was
// sent, and that nothing is sent to another host.
func TestAnswers(t *testing.T) {
	f, other := newFake(t), newFake(t)
	echo := func(w http.ResponseWriter, code int) {
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error": {"message": %q}}`, secret)
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"bad request": {func(w http.ResponseWriter, _ *http.Request) { echo(w, 400) }, "answered 400 Bad Request, request req-"},
		"forbidden":   {func(w http.ResponseWriter, _ *http.Request) { echo(w, 403) }, "answered 403 Forbidden"},
		"too many":    {func(w http.ResponseWriter, _ *http.Request) { echo(w, 429) }, "cannot answer (429 Too Many Requests"},
		"unavailable": {func(w http.ResponseWriter, _ *http.Request) { echo(w, 503) }, "try again later"},
		"a request named like a secret": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Openstack-Request-Id", secret)
			echo(w, 500)
		}, "(500 Internal Server Error)"},
		"a web page": {func(w http.ResponseWriter, _ *http.Request) { echo(w, 200) }, "answered 200 OK"},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			_, _ = w.Write([]byte(secret))
		}, "is not Keystone: is auth.auth_url right?"},
		"no token": {func(w http.ResponseWriter, _ *http.Request) { echo(w, 201) }, "is not Keystone"},
		"a null": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "t")
			w.WriteHeader(201)
			_, _ = w.Write([]byte("null"))
		}, "is not Keystone"},
		"a token that ends a header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "a b")
			w.WriteHeader(201)
			_, _ = w.Write([]byte(`{"token": {"expires_at": "2999-01-01T00:00:00Z"}}`))
		}, "is not Keystone"},
		"an endless answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			for range maxAnswer >> 10 {
				_, _ = w.Write(bytes.Repeat([]byte(" "), 1<<10+1))
			}
		}, "is not Keystone"},
		"an expired token": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Subject-Token", "t")
			w.WriteHeader(201)
			_, _ = w.Write([]byte(`{"token": {"expires_at": "2001-01-01T00:00:00Z"}}`))
		}, "has expired already"},
		"another proof": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Openstack-Auth-Receipt", "r")
			echo(w, 401)
		}, "set auth_type to multifactor"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/v3/auth/tokens?"+secret, http.StatusTemporaryRedirect)
		}, fmt.Sprintf("redirects to %q (307 Temporary Redirect", other.URL)},
		"a connection that ends": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_, _ = conn.Write([]byte(secret + "\r\n\r\n"))
			_ = conn.Close()
		}, "the connection failed"},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t, map[string]string{"clouds.yaml": jane(f.URL)})
			f.answer = test.answer
			_, err := get(t, Options{})
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %q does not contain %q, or has the password", err, test.want)
			}
		})
	}
	if got := other.count(); got != [2]int{} {
		t.Errorf("%v requests to where Keystone redirects", got)
	}
}

func TestTimeout(t *testing.T) {
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(slow.Close)
	t.Cleanup(func() { close(release) })
	isolate(t, map[string]string{"clouds.yaml": jane(slow.URL)})
	if _, err := get(t, Options{Timeout: 50 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "no answer in time (--timeout)") {
		t.Errorf("got error %v", err)
	}
}

// TestKeep checks that a token is kept for who asked for it, and that nothing else is kept.
func TestKeep(t *testing.T) {
	f := newFake(t)
	isolate(t, map[string]string{"clouds.yaml": jane(f.URL)})
	first := mustGet(t, Options{})
	if again := mustGet(t, Options{}); again != first || f.count() != [2]int{1, 0} {
		t.Errorf("%q after %q, and %v requests", again, first, f.count())
	}
	if mustGet(t, Options{Settings: map[string]string{"project_name": "data"}}) == first {
		t.Error("the token for another project is the same")
	}
	if mustGet(t, Options{NoCache: true}) == first {
		t.Error("a token that was kept is given with NoCache")
	}
	write(t, "secure.yaml", "clouds: {jane: {auth: {password: another}}}")
	if mustGet(t, Options{}) == first {
		t.Error("the token for another password is the same")
	}

	directory := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tenantry", "keystone")
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) != 6 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	if info, err := os.Stat(directory); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory of mode %v, %v", info.Mode(), err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s of mode %v, %v", entry.Name(), info.Mode(), err)
		}
		content, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil || bytes.Contains(content, []byte(secret)) || bytes.Contains(content, []byte("another")) {
			t.Errorf("%s has a password, or %v", entry.Name(), err)
		}
	}
}

// TestKey checks that who has the name of a file tries passwords slowly. A plain digest takes a
// microsecond.
func TestKey(t *testing.T) {
	l := &login{method: byPassword, cloud: cloud{settings: map[string]string{"password": secret}}}
	began := time.Now()
	if first, second := l.key(), l.key(); first != second {
		t.Errorf("the key is %s and then %s", first, second)
	}
	if took := time.Since(began); took < 2*time.Millisecond {
		t.Errorf("two keys took %s", took)
	}
}

// TestManyAtOnce checks that processes that need a token at once make one log-in, whatever
// comes of it.
func TestManyAtOnce(t *testing.T) {
	f := newFake(t)
	for name, password := range map[string]string{"right": "right", "wrong": "wrong"} {
		t.Run(name, func(t *testing.T) {
			isolate(t, map[string]string{"clouds.yaml": jane(f.URL), "secure.yaml": "clouds: {jane: {auth: {password: " + password + "}}}"})
			before := f.count()
			var tokens sync.Map
			var group sync.WaitGroup
			for range 20 {
				group.Go(func() {
					c, err := get(t, Options{})
					if (err == nil) != (name == "right") {
						t.Errorf("got error %v", err)
					} else if err == nil {
						tokens.Store(c.Status.Token, true)
					}
				})
			}
			group.Wait()
			if got := f.count()[0] - before[0]; got != 1 {
				t.Errorf("%d log-ins", got)
			}
			tokens.Range(func(key, _ any) bool {
				if want := fmt.Sprintf("token-%d", f.count()[0]); key != want {
					t.Errorf("got %v, want %s", key, want)
				}
				return true
			})
		})
	}
}

// age makes all that is kept older.
func age(t *testing.T, change func(*record)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tenantry", "keystone", "*.json"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	kept := &locked{path: paths[0]}
	r := kept.read()
	change(&r)
	if err := kept.write(r); err != nil {
		t.Fatal(err)
	}
}

// TestAskedAgain checks that a token which may have been refused by the server is verified, and
// replaced if it is no good.
func TestAskedAgain(t *testing.T) {
	f := newFake(t)
	isolate(t, map[string]string{"clouds.yaml": jane(f.URL)})
	expect := func(token string, logins, checks int) {
		t.Helper()
		got := mustGet(t, Options{})
		if want := [2]int{logins, checks}; got != token || f.count() != want {
			t.Errorf("got %q with %v requests, want %q with %v", got, f.count(), token, want)
		}
	}
	expect("token-1", 1, 0)
	age(t, func(r *record) { r.Verified = r.Verified.Add(-verifyPeriod) })
	expect("token-1", 1, 1)
	expect("token-1", 1, 1) // verified a moment ago

	f.revoked["token-1"] = true
	age(t, func(r *record) { r.Verified, r.Given = r.Verified.Add(-again), r.Given.Add(-again) })
	expect("token-1", 1, 1) // nobody can know
	expect("token-2", 2, 2) // the server has refused it

	// Without an answer the server decides.
	age(t, func(r *record) { r.Verified = r.Verified.Add(-verifyPeriod) })
	f.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	expect("token-2", 2, 3)
	f.answer = nil

	age(t, func(r *record) { r.Expires = time.Now() })
	expect("token-3", 3, 3)

	// What cannot be read is not there.
	for _, content := range []string{"", "[]", `{"token": "a\nb", "expires": "2999-01-01T00:00:00Z"}`} {
		paths, _ := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tenantry", "keystone", "*.json"))
		write(t, paths[0], content)
		expect(fmt.Sprintf("token-%d", f.count()[0]+1), f.count()[0]+1, 3)
	}
}

// TestRefused checks that a refused log-in is not tried again at once, and that another is.
func TestRefused(t *testing.T) {
	f := newFake(t)
	isolate(t, map[string]string{"clouds.yaml": jane(f.URL), "secure.yaml": "clouds: {jane: {auth: {password: wrong}}}"})
	for range 5 { // as often as kubectl asks
		if _, err := get(t, Options{}); err == nil || f.count()[0] != 1 {
			t.Errorf("got error %v, after %d log-ins", err, f.count()[0])
		}
	}
	age(t, func(r *record) { r.Failed = r.Failed.Add(-refusedPeriod) })
	if _, err := get(t, Options{}); err == nil || f.count()[0] != 2 {
		t.Errorf("got error %v, after %d log-ins", err, f.count()[0])
	}
	write(t, "secure.yaml", "")
	mustGet(t, Options{})

	// Another passcode may be right.
	t.Setenv("OS_PASSCODE", "wrong")
	o := Options{Settings: map[string]string{"auth_type": "totp"}}
	if _, err := get(t, o); err == nil {
		t.Error("no error")
	}
	t.Setenv("OS_PASSCODE", "123456")
	mustGet(t, o)

	// An outage may be over.
	f.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	o = Options{Settings: map[string]string{"project_name": "data"}}
	if _, err := get(t, o); err == nil {
		t.Error("no error")
	}
	f.answer = nil
	mustGet(t, o)
}

// TestExpiration checks that a token is replaced before it expires, whatever Keystone's clock says.
func TestExpiration(t *testing.T) {
	f := newFake(t)
	for life, want := range map[time.Duration]time.Duration{time.Hour: 59 * time.Minute, 100 * time.Second: 90 * time.Second} {
		for _, skew := range []time.Duration{0, -2 * time.Hour, 2 * time.Hour} {
			isolate(t, map[string]string{"clouds.yaml": jane(f.URL)})
			f.life, f.skew = life, skew
			c, err := get(t, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Until(c.Status.ExpirationTimestamp.Time); got > want || got < want-5*time.Second {
				t.Errorf("a token for %s of a clock that is %s ahead is given for %s, want %s", life, skew, got, want)
			}
		}
	}
}

// TestExecInfo checks what client-go asks for and gets.
func TestExecInfo(t *testing.T) {
	f := newFake(t)
	type answer struct{ version, asked, err string }
	for name, test := range map[string]struct {
		info string
		want answer
	}{
		"by hand":      {"", answer{version: "client.authentication.k8s.io/v1", asked: `Password of user "jane" at ` + f.URL + "/v3: "}},
		"interactive":  {`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":true}}`, answer{version: "client.authentication.k8s.io/v1", asked: `Password of user "jane" at ` + f.URL + "/v3: "}},
		"v1beta1":      {`{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","spec":{"interactive":true}}`, answer{version: "client.authentication.k8s.io/v1beta1", asked: `Password of user "jane" at ` + f.URL + "/v3: "}},
		"asks nobody":  {`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`, answer{err: "auth.password is missing, and nobody can be asked"}},
		"v1alpha1":     {`{"apiVersion":"client.authentication.k8s.io/v1alpha1"}`, answer{err: `asks for "client.authentication.k8s.io/v1alpha1": set apiVersion to client.authentication.k8s.io/v1`}},
		"another text": {"x", answer{err: "KUBERNETES_EXEC_INFO is no ExecCredential"}},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t, map[string]string{"clouds.yaml": strings.Replace(jane(f.URL), "password", "x", 1)})
			t.Setenv(execInfo, test.info)
			var got answer
			c, err := get(t, Options{Ask: func(_ context.Context, prompt string) (string, error) {
				got.asked = prompt
				return secret, nil
			}})
			if got.version = c.APIVersion; err != nil {
				got.err = err.Error()
			}
			if strings.Contains(got.err, test.want.err) {
				got.err = test.want.err
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTyped checks that a typed password is asked for once a token, and again if it was wrong.
func TestTyped(t *testing.T) {
	f := newFake(t)
	isolate(t, map[string]string{"clouds.yaml": strings.Replace(jane(f.URL), "password", "x", 1)})
	typed := []string{"wrong", "", "right"}
	o := Options{Ask: func(context.Context, string) (string, error) {
		defer func() { typed = typed[1:] }()
		return typed[0], nil
	}}
	for _, want := range []string{"is auth.password right", "the password is empty"} {
		if _, err := get(t, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	if first, second := mustGet(t, o), mustGet(t, o); first != second {
		t.Errorf("%q after %q", second, first)
	}
}

// TestCertificates checks that Keystone's certificate is verified unless the cloud says not to.
func TestCertificates(t *testing.T) {
	f := newFake(t)
	s := httptest.NewUnstartedServer(f.Config.Handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, test := range map[string]struct {
		settings string
		env      map[string]string
		want     string
	}{
		"unknown":     {"", nil, "name the file of its authority in cacert"},
		"another's":   {"", map[string]string{"OS_CACERT": "ca.crt", "OS_INSECURE": "true"}, "name the file of its authority in cacert"},
		"known":       {"    cacert: ca.crt\n", nil, ""},
		"at home":     {"    cacert: ~/ca.crt\n", nil, ""},
		"no matter":   {"    verify: False\n", nil, ""},
		"insecure":    {"    insecure: true\n", nil, ""},
		"verified":    {"    verify: true\n    insecure: no\n", nil, "x509:"},
		"no PEM":      {"    cacert: clouds.yaml\n", nil, "cacert: clouds.yaml has no certificate"},
		"no key pair": {"    cert: ca.crt\n    key: ca.crt\n", nil, "cert and key: tls:"},
	} {
		t.Run(name, func(t *testing.T) {
			isolate(t, map[string]string{"clouds.yaml": jane(s.URL) + test.settings, "ca.crt": string(authority)})
			write(t, filepath.Join(os.Getenv("HOME"), "ca.crt"), string(authority))
			for name, value := range test.env {
				t.Setenv(name, value)
			}
			_, err := get(t, Options{})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// TestCacheDirectory checks that tokens are kept where nobody else reads or plants them.
func TestCacheDirectory(t *testing.T) {
	f := newFake(t)
	isolate(t, map[string]string{"clouds.yaml": jane(f.URL), "file": ""})
	for _, mode := range []os.FileMode{0o755, 0o770, 0o703} {
		directory := filepath.Join(t.TempDir(), "cache")
		if err := errors.Join(os.Mkdir(directory, 0o700), os.Chmod(directory, mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := get(t, Options{CacheDir: directory}); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("mode %v: got error %v", mode, err)
		}
	}
	if _, err := get(t, Options{CacheDir: "file"}); err == nil || !strings.Contains(err.Error(), "--no-cache") {
		t.Errorf("got error %v", err)
	}
	if f.count() != [2]int{} {
		t.Errorf("%v requests", f.count())
	}
}

// TestSweep checks that what nobody uses goes, and what is not ours stays.
func TestSweep(t *testing.T) {
	f := newFake(t)
	isolate(t, map[string]string{"clouds.yaml": jane(f.URL)})
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	stem := strings.Repeat("0", 64)
	old := time.Now().Add(-forget - time.Minute)
	for _, name := range []string{stem + ".json", stem + ".lock", "." + stem + ".json.123", "notes"} {
		path := filepath.Join(directory, name)
		write(t, path, "")
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	mustGet(t, Options{CacheDir: directory})
	entries, err := os.ReadDir(directory)
	if err != nil || len(entries) != 3 || entries[2].Name() != "notes" {
		t.Errorf("%v are left, %v", entries, err)
	}
}

// TestBusy checks that a process that does not end does not stop others forever.
func TestBusy(t *testing.T) {
	directory := t.TempDir()
	if err := os.Chmod(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := open(t.Context(), directory, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer held.close()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := open(ctx, directory, "key"); err == nil || !strings.Contains(err.Error(), "key.lock") {
		t.Errorf("got error %v", err)
	}
}
