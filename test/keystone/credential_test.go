//go:build keystone

package keystone

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"github.com/tenantry/tenantry/internal/kubeconfig"
)

// person is whoever the environment says, by the variables OS_* or a cloud.
type person struct {
	url, password string
	identity      *gophercloud.ServiceClient
	// bin and cache are directories of the command tenantry and of its tokens.
	bin, cache string
}

func newPerson(t *testing.T) *person {
	t.Helper()
	p := &person{url: os.Getenv("OS_AUTH_URL"), password: os.Getenv("OS_PASSWORD"), cache: filepath.Join(t.TempDir(), "cache")}
	if p.url == "" {
		options, _, _, err := clouds.Parse()
		if err != nil {
			t.Fatalf("the environment names no user of a Keystone, by OS_CLOUD or an openrc file: %v", err)
		}
		p.url, p.password = options.IdentityEndpoint, options.Password
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p.bin = filepath.Dir(path)
	token, said := p.logIn(t)
	if token == "" {
		t.Fatal(said)
	}
	p.identity = &gophercloud.ServiceClient{
		ProviderClient: &gophercloud.ProviderClient{TokenID: token},
		Endpoint:       strings.TrimSuffix(strings.TrimSuffix(p.url, "/"), "/v3") + "/v3/",
	}
	return p
}

// logIn returns a new token, and what the command says otherwise.
func (p *person) logIn(t *testing.T, env ...string) (string, string) {
	t.Helper()
	cmd := p.command(t, filepath.Join(p.bin, "tenantry"), "credential", "keystone", "--no-cache")
	cmd.Env = append(cmd.Env, env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", stderr.String()
	}
	var credential clientauthentication.ExecCredential
	if err := json.Unmarshal(out, &credential); err != nil {
		t.Fatal(err)
	}
	return credential.Status.Token, stderr.String()
}

// command returns a command that finds tenantry, and its tokens in a directory of the test.
func (p *person) command(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "PATH="+p.bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+p.cache)
	return cmd
}

// apiServer answers whoever has a token that Keystone knows, and notes the tokens.
type apiServer struct {
	*httptest.Server
	mu     sync.Mutex
	tokens []string
}

func newAPIServer(t *testing.T, p *person) *apiServer {
	s := &apiServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.mu.Lock()
		s.tokens = append(s.tokens, token)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if valid, err := tokens.Validate(r.Context(), p.identity, token); err != nil || !valid {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401, "message": "Unauthorized"}`))
			return
		}
		_, _ = w.Write([]byte(`{"gitVersion": "v1.2.3"}`))
	}))
	t.Cleanup(s.Close)
	return s
}

// seen returns the tokens since the last time.
func (s *apiServer) seen() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	result := map[string]bool{}
	for _, token := range s.tokens {
		result[token] = true
	}
	s.tokens = nil
	return result
}

// TestCredential logs in by "tenantry credential keystone".
func TestCredential(t *testing.T) {
	p := newPerson(t)
	t.Run("kubectl", p.testKubectl)
	t.Run("application credential", p.testApplicationCredential)
}

// testKubectl follows the stock kubectl from the first log-in to a revoked token.
func (p *person) testKubectl(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("needs kubectl")
	}
	s := newAPIServer(t, p)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	config, err := kubeconfig.NewExec(s.URL, authority, "acme", "keystone")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	var mu sync.Mutex
	version := func() error {
		out, err := p.command(t, kubectl, "--kubeconfig", path, "-v=9", "get", "--raw", "/version").CombinedOutput()
		mu.Lock()
		defer mu.Unlock()
		printed.Write(out)
		return err
	}

	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := version(); err != nil {
				t.Errorf("kubectl: %v", err)
			}
		})
	}
	group.Wait()
	first := s.seen()
	if len(first) != 1 {
		t.Fatalf("20 kubectl have %d tokens:\n%s", len(first), printed.String())
	}
	for token := range first {
		if err := tokens.Revoke(t.Context(), p.identity, token).Err; err != nil {
			t.Fatal(err)
		}
		// Keystone is asked every few seconds only, so the first commands may fail.
		for attempts := 0; version() != nil; attempts++ {
			if attempts == 100 {
				t.Fatalf("a revoked token is not replaced:\n%s", printed.String())
			}
		}
		if err := version(); err != nil {
			t.Errorf("with a new token: %v", err)
		}
		if bytes.Contains(printed.Bytes(), []byte(token)) {
			t.Error("kubectl prints the token")
		}
	}
	p.searchForPassword(t, printed.Bytes(), config)
}

// searchForPassword looks at all that is left behind.
func (p *person) searchForPassword(t *testing.T, texts ...[]byte) {
	t.Helper()
	err := filepath.WalkDir(p.cache, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		texts = append(texts, content)
		return err
	})
	if err != nil || len(texts) < 3 {
		t.Errorf("%d texts, %v", len(texts), err)
	}
	for _, text := range texts {
		if p.password != "" && bytes.Contains(text, []byte(p.password)) {
			t.Errorf("the password is in %s", text)
		}
	}
}

// testApplicationCredential logs in by an application credential, until it is deleted.
func (p *person) testApplicationCredential(t *testing.T) {
	user, err := tokens.Get(t.Context(), p.identity, p.identity.Token()).ExtractUser()
	if err != nil {
		t.Fatal(err)
	}
	made, err := applicationcredentials.Create(t.Context(), p.identity, user.ID, applicationcredentials.CreateOpts{Name: t.Name()}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	remove := func() error {
		return applicationcredentials.Delete(t.Context(), p.identity, user.ID, made.ID).ExtractErr()
	}
	env := []string{"OS_APPLICATION_CREDENTIAL_ID=" + made.ID, "OS_APPLICATION_CREDENTIAL_SECRET=" + made.Secret}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OS_") {
			env = append([]string{name + "="}, env...)
		}
	}
	env = append(env, "OS_AUTH_URL="+p.url)
	token, said := p.logIn(t, env...)
	if project, err := tokens.Get(t.Context(), p.identity, token).ExtractProject(); err != nil || project.ID != made.ProjectID {
		t.Errorf("the token is for %v, %v: %s", project, err, said)
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if token, said := p.logIn(t, env...); token != "" || !strings.Contains(said, "refused application credential") || strings.Contains(said, made.Secret) {
		t.Errorf("after its end the credential says %q, token %t", said, token != "")
	}
}
