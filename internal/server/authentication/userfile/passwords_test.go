package userfile

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/tenantry/tenantry/internal/server/authentication/watchedfile"
)

// Made with "openssl passwd" (and the options in the comments).
const (
	sha256Hello = "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"                                                                   // -5
	sha512Hello = "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"                        // -6
	sha256Short = "$5$xy$2YtLTvY8PxgpJVvLsDT9gfUn37El/ZxJYR30Q0SaTG7"                                                                           // -5
	sha512Short = "$6$xy$slbcdhkA7dxYSvPzziBqWRNc503l1VWleOtXv24xncEbWiMYwYuVacvE4zEJtDbEdkBoqfPMeil9EAhFYHfeu/"                                // -6
	sha256Long  = "$5$rounds=1400$anotherlongsaltstring$Rx.j8H.h8HjEDGomFU8bDkXm3XIUnzyxf12oP84Bnq1"                                            // -5
	sha512Long  = "$6$rounds=1400$anotherlongsaltstring$POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1" // -6
	long        = "a very much longer text to encrypt.  This one even stretches over morethan one line."
)

func TestPasswords(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("pw-bcrypt"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, strings.Join([]string{
		"pw-plain,plain,id,,a", string(hash) + ",bcrypt,id,,a",
		sha256Hello + ",sha256,id,,a", sha512Hello + ",sha512,id,,a",
		sha256Short + ",sha256-short,id,,a", sha512Short + ",sha512-short,id,,a",
		sha256Long + ",sha256-long,id,,a", sha512Long + ",sha512-long,id,,a",
		"$ 5,money,id,,a", "\"with,comma\",comma,id,,a",
	}, "\n"))
	passwords, err := OpenPasswords(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, password := range map[string]string{
		"plain": "pw-plain", "bcrypt": "pw-bcrypt", "sha256": "Hello world!", "sha512": "Hello world!",
		"sha256-short": "pässword with spaces", "sha512-short": "pässword with spaces",
		"sha256-long": long, "sha512-long": long, "money": "$ 5", "comma": "with,comma",
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // the second time it is known to be right
				request := &http.Request{Header: make(http.Header)}
				request.SetBasicAuth(name, password)
				response, ok, err := passwords.AuthenticateRequest(request)
				if err != nil || !ok || response.User.GetName() != name {
					t.Fatalf("got %v, %v, %v", response, ok, err)
				}
			}
			for _, wrong := range []string{"", "x", password + "x", password[1:], passwords.Current().users[name].password + "x"} {
				if u, err := passwords.check(context.Background(), name, wrong); err == nil {
					t.Errorf("password %q was accepted for %v", wrong, u)
				}
			}
		})
	}
	for _, hashed := range []string{string(hash), sha256Hello, sha512Hello} {
		if u, err := passwords.check(context.Background(), "bcrypt", hashed); err == nil {
			t.Errorf("the hash itself was accepted for %v", u)
		}
	}
	for _, password := range []string{"", "pw-plain"} {
		if u, err := passwords.check(context.Background(), "nobody", password); err == nil {
			t.Errorf("an unknown user became %v", u)
		}
	}
	if _, ok, err := passwords.AuthenticateRequest(&http.Request{Header: http.Header{"Authorization": {"Basic !"}}}); ok || err != nil {
		t.Errorf("a malformed header: %v, %v", ok, err)
	}
}

func TestPasswordsRefuse(t *testing.T) {
	for line, reason := range map[string]string{
		"$2b$broken,u,id":               "bcrypt",
		"$1$salt$hash,u,id":             `type "1"`,
		"$apr1$salt$hash,u,id":          `type "apr1"`,
		"$argon2id$v=19$x$y,u,id":       `type "argon2id"`,
		"$6$salt$short,u,id":            "86 characters",
		"$5$salt,u,id":                  "$5$salt$hash",
		"$6$rounds=x$salt$hash,u,id":    "rounds=x",
		"$5$rounds=9999999$salt$h,u,id": "rounds=9999999",
		"pw,system:kube-scheduler,id":   "colon",
		"pw,a:u,id,,a":                  "colon",
		"pw,u,id,,a\npw2,u,id,,b":       "earlier line",
	} {
		t.Run(line, func(t *testing.T) {
			_, err := OpenPasswords(write(t, line))
			if err == nil || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "line ") {
				t.Errorf("error %v, want one with a line and %q", err, reason)
			}
		})
	}
}

func BenchmarkPassword(b *testing.B) {
	hash, err := bcrypt.GenerateFromPassword([]byte("pw"), bcrypt.DefaultCost)
	if err != nil {
		b.Fatal(err)
	}
	parsed, err := parsePasswords([]byte(string(hash) + ",u,id,,a"))
	if err != nil {
		b.Fatal(err)
	}
	passwords := Passwords{File: &watchedfile.File[passwords]{}, key: []byte("key"), comparing: make(chan struct{}, 1)}
	passwords.Set(parsed)
	if _, err := passwords.check(b.Context(), "u", "pw"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := passwords.check(b.Context(), "u", "pw"); err != nil {
			b.Fatal(err)
		}
	}
}
