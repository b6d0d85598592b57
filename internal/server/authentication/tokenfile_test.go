package authentication

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/tenant"
)

func writeTokens(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokenFile(t *testing.T) {
	for line, want := range map[string]struct {
		tenant string
		groups []string
	}{
		`t,u,id`:                {"system", nil},
		`t,u,id,g`:              {"system", []string{"g"}},
		`t,u,id,"g1,g2",other`:  {"system", []string{"g1", "g2"}},
		`t,u,id,,a`:             {"a", nil},
		`t,u,id,"g1,g2",,a`:     {"a", []string{"g1", "g2"}},
		`t,u,id,g,other,,a`:     {"a", []string{"g"}},
		`t,u,id,g,o1,o2,,a`:     {"a", []string{"g"}},
		`t,u,id,,,a`:            {"a", nil},
		`t,u,,g`:                {"system", []string{"g"}},
		`t,u,id,,system`:        {"system", nil},
		`t,u,id,"g",other,more`: {"system", []string{"g"}},
	} {
		t.Run(line, func(t *testing.T) {
			tokens, err := readTokenFile(writeTokens(t, line+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			response, ok, err := tokens.AuthenticateToken(context.Background(), "t")
			if err != nil || !ok {
				t.Fatalf("token not known: %v", err)
			}
			n, err := tenant.OfUser(response.User)
			if err != nil || string(n) != want.tenant {
				t.Errorf("tenant %q, %v; want %q", n, err, want.tenant)
			}
			if diff := cmp.Diff(want.groups, response.User.GetGroups()); diff != "" {
				t.Error(diff)
			}
			if _, ok, _ := tokens.AuthenticateToken(context.Background(), "x"); ok {
				t.Error("an unknown token was accepted")
			}
		})
	}
}

func TestTokenFileRefuses(t *testing.T) {
	for line, reason := range map[string]string{
		`t,u`:              "at least 3 columns",
		`t,,id`:            "must not be empty",
		`,u,id`:            "must not be empty",
		`t,u,id,,A_B`:      "invalid tenant name",
		`t,u,id,g,,`:       "invalid tenant name",
		`t,u,id,,all`:      "reserved",
		"t,u,id\nt,v,id,g": "earlier line",
	} {
		t.Run(line, func(t *testing.T) {
			path := writeTokens(t, "ok,u,id\n"+line+"\n")
			_, err := readTokenFile(path)
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range []string{path, "line ", reason} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}
