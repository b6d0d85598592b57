package userfile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/testutil"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users.csv")
	replace(t, path, content)
	return path
}

// replace puts a new file in the place of path, as editors and Kubernetes do.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestFormat is the table of docs/guides/authentication.md: what a line says about its user.
func TestFormat(t *testing.T) {
	for line, want := range map[string]struct {
		tenant string
		groups []string
	}{
		`s,u,id`:                            {"system", nil},
		`s,u,id,g`:                          {"system", []string{"g"}},
		`s,u,id,"g1,g2",other`:              {"system", []string{"g1", "g2"}},
		`s,u,id,"g",other,more`:             {"system", []string{"g"}},
		`s,u,id,`:                           {"system", nil},
		`s,u,,g`:                            {"system", []string{"g"}},
		`s,u,id,,a`:                         {"a", nil},
		`s,u,id,,,a`:                        {"a", nil},
		`s,u,id,"g1,g2",,a`:                 {"a", []string{"g1", "g2"}},
		`s,u,id,g,other,,a`:                 {"a", []string{"g"}},
		`s,u,id,g,o1,o2,,a`:                 {"a", []string{"g"}},
		`s,u,id,,system`:                    {"system", nil},
		`s,u,id,"g,system:masters",,a`:      {"a", []string{"g"}},
		`s,u,id,"g,system:masters",,system`: {"system", []string{"g", "system:masters"}},
	} {
		t.Run(line, func(t *testing.T) {
			tokens, err := OpenTokens(write(t, line+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			response, ok, err := tokens.AuthenticateToken(context.Background(), "s")
			if err != nil || !ok {
				t.Fatalf("token not known: %v", err)
			}
			checkUser(t, response.User, want.tenant, want.groups)
			if _, ok, _ := tokens.AuthenticateToken(context.Background(), "x"); ok {
				t.Error("an unknown token was accepted")
			}
			passwords, err := OpenPasswords(write(t, line))
			if err != nil {
				t.Fatal(err)
			}
			u, err := passwords.check(context.Background(), "u", "s")
			if err != nil {
				t.Fatal(err)
			}
			checkUser(t, u, want.tenant, want.groups)
		})
	}
}

func checkUser(t *testing.T, u user.Info, wantTenant string, wantGroups []string) {
	t.Helper()
	if n, err := tenant.OfUser(u); err != nil || string(n) != wantTenant {
		t.Errorf("tenant %q, %v; want %q", n, err, wantTenant)
	}
	if diff := cmp.Diff(wantGroups, u.GetGroups()); diff != "" {
		t.Error(diff)
	}
}

func TestFormatRefuses(t *testing.T) {
	for line, reason := range map[string]string{
		`t,u`:                               "at least 3 columns",
		`t`:                                 "at least 3 columns",
		`t,,id`:                             "must not be empty",
		`,u,id`:                             "must not be empty",
		`t,u,id,,A_B`:                       "invalid tenant name",
		`t,u,id,g,,`:                        "column 6, the last one, is empty",
		`t,u,id,,`:                          "column 5, the last one, is empty",
		`t,u,id,g,,a,`:                      "column 5 is empty",
		`t,u,id,g,,a,,`:                     "empty",
		`t,u,id,g,,a,note`:                  "column 5 is empty, and the last but one is column 6",
		`t,u,id,,a,note`:                    "column 4 is empty, and the last but one is column 5",
		`t,u,id,g,,a,,b`:                    "column 5 is empty, and the last but one is column 7",
		`t,u,id,g, ,a`:                      "column 5 is empty",
		`t,u,id,g,,a, `:                     "empty",
		`t,u,id,"g,,a"`:                     "group of no name",
		`t,u,id,"system:masters,"`:          "group of no name",
		`t,u,id,,all`:                       "reserved",
		`t,u,id,,*`:                         "invalid tenant name",
		`t,system:node:n,id,,a`:             "belongs to the system tenant",
		`t,system:anonymous,id`:             "reserved",
		`t,u,id,"g`:                         "quote",
		`t"t,u,id`:                          "quote",
		"t,u,id,\"g\ng\",,A":                "invalid tenant name",
		"t,u,id\nt,u,id,g":                  "earlier line",
		"t,u,id\nt2,u,id,,a\nt2,v,id,,a":    "earlier line",
		"ok1,okay,id,,a\n\n\nt,u,id,\"g,,a": "quote",
	} {
		t.Run(line, func(t *testing.T) {
			path := write(t, "ok,first,id\n"+line+"\n")
			_, tokens := OpenTokens(path)
			_, passwords := OpenPasswords(path)
			for file, err := range map[string]error{"token": tokens, "basic-auth": passwords} {
				if err == nil {
					t.Fatalf("no error of the %s file", file)
				}
				for _, part := range []string{file + " file", path, "line ", reason} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("error %q does not say %q", err, part)
					}
				}
			}
		})
	}
}

func TestReload(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path := write(t, "one,u,id,,a\n")
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); tokens.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	known := func(token string) bool {
		_, ok, err := tokens.AuthenticateToken(ctx, token)
		return ok && err == nil
	}
	failures, err := testutil.GetCounterMetricValue(reloadsTotal.WithLabelValues("token", "failure"))
	if err != nil {
		t.Fatal(err)
	}

	replace(t, path, "two,u,id,,a\n")
	until.True(t, "the file is read again", func() bool { return known("two") && !known("one") })

	replace(t, path, "three,u,id,,A_B\n")
	until.True(t, "the malformed file is noticed", func() bool {
		now, err := testutil.GetCounterMetricValue(reloadsTotal.WithLabelValues("token", "failure"))
		return err == nil && now > failures
	})
	if !known("two") || known("three") {
		t.Error("a malformed file has changed who is known")
	}

	failures++
	replace(t, path, "four,u,id") // of tenant a, whose name is missing
	until.True(t, "a file whose last line has no end is noticed", func() bool {
		now, err := testutil.GetCounterMetricValue(reloadsTotal.WithLabelValues("token", "failure"))
		return err == nil && now > failures
	})
	if !known("two") || known("four") {
		t.Error("a file whose last line has no end has changed who is known")
	}
	replace(t, path, "four,u,id,,a\n")
	until.True(t, "its rest is read", func() bool { return known("four") && !known("two") })
}

// FuzzParse checks that no content of a file makes a panic, or a user that the
// format does not allow.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"t,u,id", `t,u,id,"g1,g2",other,,a`, "t,u,id,,", "\"", "a,b,c\n\xff,\x00,,,a", "$6$a$b,u,i,,a"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		count := 0
		err := parse(content, func(secret string, u *user.DefaultInfo) error {
			count++
			n, err := tenant.OfUser(u)
			if err != nil || n == "" || n.Scope().IsMany() {
				t.Errorf("user %q has tenant %q, %v", u.Name, n, err)
			}
			if secret == "" || u.Name == "" || u.Name == user.APIServerUser || u.Name == user.Anonymous {
				t.Errorf("user %q with secret %q", u.Name, secret)
			}
			for _, group := range u.Groups {
				if n != tenant.System && group == user.SystemPrivilegedGroup {
					t.Errorf("user of %q has group %q", n, group)
				}
			}
			return nil
		})
		tokens, tokensErr := parseTokens(content)
		if err == nil && tokensErr == nil && len(tokens) != count {
			t.Errorf("%d tokens of %d lines", len(tokens), count)
		}
		if _, err := parsePasswords(content); err == nil && tokensErr != nil && !strings.Contains(tokensErr.Error(), "earlier") {
			t.Errorf("one file: %v", tokensErr)
		}
	})
}
