package keystone_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

const (
	right = "pw-jane-s3cret"
	wrong = "pw-wrong-s3cret"
)

// jane has roles wherever one can have some.
func jane() fake.Person {
	onDomain := func(role, domain string) map[string]any {
		return map[string]any{"role": fake.Ref(role), "scope": map[string]any{"domain": fake.Ref(domain)}}
	}
	return fake.Person{Domain: "d", Name: "jane", Password: right,
		Projects: []map[string]any{
			fake.Project("p", "web", "d", true), fake.Project("off", "off", "d", false), fake.Project("q", "web", "other", true),
			{"id": "d", "name": "d", "domain_id": "d", "enabled": true, "is_domain": true},
		},
		Assignments: []map[string]any{
			fake.Assignment("r", "p"), fake.Assignment("s", "p"), fake.Assignment("r", "p"), // which is repeated
			fake.Assignment("r", "off"), fake.Assignment("r", "q"), fake.Assignment("r", "gone"), fake.Assignment("r", "d"),
			onDomain("t", "d"), onDomain("t", "other"), fake.Assignment("a:b", "p"),
			{"role": fake.Ref("r"), "scope": map[string]any{"system": map[string]any{"all": true}}},
		},
	}
}

func TestLogIn(t *testing.T) {
	server := newFake(t)
	server.SetPeople(jane(), fake.Person{Domain: "other", Name: "stranger", Password: right})
	client := newClient(t, server)
	access, err := client.LogIn(t.Context(), "d", "jane", right)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]keystone.RoleOn{{RoleID: "t"}, {ProjectID: "p", RoleID: "r"}, {ProjectID: "p", RoleID: "s"}}, access.Roles); diff != "" {
		t.Error(diff)
	}
	if access.Token.User.ID != "jane" || time.Until(access.Token.ExpiresAt) < 59*time.Minute {
		t.Errorf("token %+v", access.Token)
	}
	if logins, _ := server.Counts(); logins != 1 {
		t.Errorf("the account has logged in %d times", logins)
	}
	for _, who := range []string{"jane", "stranger", "nobody"} {
		before := server.Attempts()
		if _, err := client.LogIn(t.Context(), "d", who, wrong); !errors.Is(err, keystone.ErrNotValid) {
			t.Errorf("%s: error %v", who, err)
		}
		if logins, _ := server.Counts(); server.Attempts() != before+1 || logins != 1 {
			t.Errorf("%s: %d attempts, %d log-ins", who, server.Attempts()-before, logins)
		}
	}
}

// TestLogInFailures: what is not Keystone's own refusal says nothing about a password, and no
// error has one.
func TestLogInFailures(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPost {
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}
			return req.Method == http.MethodPost
		}
	}
	assignments := func(w http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, "/role_assignments") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return strings.HasSuffix(req.URL.Path, "/role_assignments")
	}
	user := func(domain string) string {
		return fmt.Sprintf(`{"token":{"user":{"id":"u","domain":{"id":%q}},"issued_at":"2020-01-01T00:00:00Z","expires_at":"2030-01-01T00:00:00Z"}}`, domain)
	}
	for name, tc := range map[string]struct {
		instead func(http.ResponseWriter, *http.Request) bool
		says    string
		invalid bool
	}{
		"401":                       {instead: answer(401, `{"error":{"code":401,"message":"`+wrong+`"}}`), invalid: true},
		"400":                       {instead: answer(400, `{"error":{"code":400,"message":"`+wrong+`"}}`), invalid: true},
		"401 of what is in front":   {instead: answer(401, wrong), says: "status 401"},
		"JSON of what is in front":  {instead: answer(401, `{"message":"`+wrong+`"}`), says: "status 401"},
		"403":                       {instead: answer(403, `{"error":{"code":403}}`), says: "status 403"},
		"429":                       {instead: answer(429, wrong), says: "status 429"},
		"503":                       {instead: answer(503, wrong), says: "status 503"},
		"not JSON":                  {instead: answer(201, "<html>"+wrong), says: "not one of Keystone"},
		"no token":                  {instead: answer(201, "{}"), says: "not one of Keystone"},
		"user of another domain":    {instead: answer(201, user("other")), says: "not one of Keystone"},
		"assignments are not there": {instead: assignments, says: "status 500"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newFake(t)
			server.SetPeople(jane())
			client := newClient(t, server)
			if _, err := client.LogIn(t.Context(), "d", "jane", right); err != nil {
				t.Fatal(err)
			}
			server.Instead(tc.instead)
			_, err := client.LogIn(t.Context(), "d", "jane", right)
			if errors.Is(err, keystone.ErrNotValid) != tc.invalid || !strings.Contains(fmt.Sprint(err), tc.says) {
				t.Errorf("error %v", err)
			}
			if strings.Contains(fmt.Sprintf("%+v %#v", err, err), "s3cret") {
				t.Errorf("the error has a secret: %#v", err)
			}
			if logins, _ := server.Counts(); logins != 1 {
				t.Errorf("the account has logged in %d times", logins)
			}
		})
	}
}
