package keystone

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/test/keystone/fake"
)

// asked is a Keystone that counts.
type asked struct {
	times atomic.Int64
	// took is how long an answer takes.
	took time.Duration
	// err is what it answers, or a token that ends after life.
	err  atomic.Pointer[error]
	life time.Duration
	// valid limits the valid tokens, if it is not nil.
	valid map[string]bool
}

func (a *asked) validate(ctx context.Context, token keystone.Secret) (*keystone.Token, error) {
	a.times.Add(1)
	select {
	case <-time.After(a.took):
	case <-ctx.Done():
		return nil, &keystone.Error{Doing: "asking", Cause: ctx.Err()}
	}
	if err := a.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	if a.valid != nil && !a.valid[string(token)] {
		return nil, keystone.ErrNotValid
	}
	return tokenOf("u", a.life), nil
}

func (a *asked) answers(err error) { a.err.Store(&err) }

func tokenOf(user string, life time.Duration) *keystone.Token {
	return &keystone.Token{
		User:    keystone.User{Owned: keystone.Owned{Ref: keystone.Ref{ID: user, Name: "name"}, Domain: keystone.Ref{ID: "home"}}},
		Project: &keystone.Owned{Ref: keystone.Ref{ID: "p"}, Domain: keystone.Ref{ID: "d"}},
		Roles:   []keystone.Ref{{ID: "r", Name: "member"}}, IssuedAt: time.Now(), ExpiresAt: time.Now().Add(life),
	}
}

func newAuthenticator(a *asked) *Authenticator {
	if a.life == 0 {
		a.life = time.Hour
	}
	return New(Config{Validate: a.validate, Timeout: 2 * time.Minute, TTL: time.Minute, NegativeTTL: 10 * time.Second})
}

// verdictOf says what becomes of a token: "valid", "invalid", "refused", "unavailable".
func verdictOf(t testing.TB, a *Authenticator, ctx context.Context, token string) string {
	t.Helper()
	found, err := a.Authenticate(ctx, token)
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, identity.ErrRefused):
		return "refused"
	case err != nil:
		t.Errorf("error %v", err)
		return "error"
	case found == nil:
		return "invalid"
	default:
		return "valid"
	}
}

func TestOnlyTokensAreSent(t *testing.T) {
	web := "eyJhbGciOiJSUzI1NiJ9." + strings.Repeat("a", 300) + ".c2ln"
	for name, tc := range map[string]struct {
		token string
		sent  bool
	}{
		"smallest":         {"gAAAAA" + strings.Repeat("a", 94), true},
		"usual":            {fake.Token(1), true},
		"largest":          {"gAAAAA" + strings.Repeat("_", 2042), true},
		"shorter":          {"gAAAAA" + strings.Repeat("a", 93), false},
		"longer":           {"gAAAAA" + strings.Repeat("a", 2043), false},
		"megabyte":         {"gAAAAA" + strings.Repeat("a", 1<<20), false},
		"web token":        {web, false},
		"dots in a token":  {"gAAAAA" + strings.Repeat("a.", 60), false},
		"padding":          {"gAAAAA" + strings.Repeat("a", 100) + "==", false},
		"another version":  {"hAAAAA" + strings.Repeat("a", 200), false},
		"header injection": {"gAAAAA" + strings.Repeat("a", 100) + "\r\nX-Auth-Token: x", false},
		"UUID token":       {strings.Repeat("a", 32), false},
		"empty":            {"", false},
		"not ASCII":        {"gAAAAA" + strings.Repeat("ä", 100), false},
	} {
		t.Run(name, func(t *testing.T) {
			k := &asked{}
			want := "invalid"
			if tc.sent {
				want = "valid"
			}
			if got := verdictOf(t, newAuthenticator(k), t.Context(), tc.token); got != want || (k.times.Load() == 1) != tc.sent {
				t.Errorf("%s, asked %d times", got, k.times.Load())
			}
		})
	}
}

// TestRemembered: what is remembered ends with the time that is configured or with the token.
func TestRemembered(t *testing.T) {
	for name, tc := range map[string]struct {
		life   time.Duration
		took   time.Duration
		err    error
		first  string
		within time.Duration // the longest that is remembered
		later  time.Duration
	}{
		"valid":                   {life: time.Hour, first: "valid", within: 59 * time.Second, later: 61 * time.Second},
		"valid, with slow answer": {life: time.Hour, took: 5 * time.Second, first: "valid", within: 54 * time.Second, later: 56 * time.Second},
		"ends soon":               {life: 7 * time.Second, first: "valid", within: 6 * time.Second, later: 8 * time.Second},
		"has ended":               {life: -time.Second, first: "invalid", within: 9 * time.Second, later: 11 * time.Second},
		"not valid":               {life: time.Hour, err: keystone.ErrNotValid, first: "invalid", within: 9 * time.Second, later: 11 * time.Second},
		"valid, and not any more": {life: time.Hour, took: time.Minute, first: "unavailable", later: 1},
		"outage":                  {life: time.Hour, err: &keystone.Error{Doing: "asking", Status: 503}, first: "unavailable", later: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &asked{life: tc.life, took: tc.took}
				k.answers(tc.err)
				a := newAuthenticator(k)
				if got := verdictOf(t, a, t.Context(), fake.Token(1)); got != tc.first || k.times.Load() != 1 {
					t.Fatalf("%s, asked %d times", got, k.times.Load())
				}
				if tc.within > 0 {
					time.Sleep(tc.within)
					if got := verdictOf(t, a, t.Context(), fake.Token(1)); got != tc.first || k.times.Load() != 1 {
						t.Errorf("after %s: %s, asked %d times", tc.within, got, k.times.Load())
					}
				}
				time.Sleep(tc.later - tc.within)
				if verdictOf(t, a, t.Context(), fake.Token(1)); k.times.Load() != 2 {
					t.Errorf("after %s: asked %d times", tc.later, k.times.Load())
				}
			})
		})
	}
}

// TestOutage: what is remembered works until its time, and an outage is no denial.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &asked{}
		a := newAuthenticator(k)
		want := func(when, token, want string) {
			t.Helper()
			if got := verdictOf(t, a, t.Context(), token); got != want {
				t.Errorf("%s: %s, not %s", when, got, want)
			}
		}
		want("before", fake.Token(1), "valid")
		k.answers(&keystone.Error{Doing: "asking", Cause: errors.New("connection refused")})
		want("down, remembered", fake.Token(1), "valid")
		want("down, new", fake.Token(2), "unavailable")
		time.Sleep(59 * time.Second)
		want("down, still remembered", fake.Token(1), "valid")
		time.Sleep(2 * time.Second)
		want("down, not remembered any more", fake.Token(1), "unavailable")
		k.answers(nil)
		want("up", fake.Token(1), "valid")
		want("up, new", fake.Token(2), "valid")
	})
}

// TestOneLookUp: requests with one token wait for one answer, whoever leaves.
func TestOneLookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &asked{took: time.Second}
		a := newAuthenticator(k)
		leaving, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := verdictOf(t, a, leaving, fake.Token(1)); got != "unavailable" {
				t.Errorf("who leaves: %s", got)
			}
		})
		synctest.Wait()
		for range 10_000 {
			wg.Go(func() {
				if got := verdictOf(t, a, t.Context(), fake.Token(1)); got != "valid" {
					t.Errorf("who stays: %s", got)
				}
			})
		}
		synctest.Wait()
		leave()
		wg.Wait()
		if times := k.times.Load(); times != 1 {
			t.Errorf("asked %d times", times)
		}
	})
}

func TestOneLookUpOfABadToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &asked{valid: map[string]bool{}}
		a := newAuthenticator(k)
		for range 1000 {
			if got := verdictOf(t, a, t.Context(), fake.Token(1)); got != "invalid" {
				t.Error(got)
			}
		}
		if times := k.times.Load(); times != 1 {
			t.Errorf("asked %d times", times)
		}
	})
}

// from returns a context of a request from an address.
func from(t testing.TB, address string) context.Context {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.RemoteAddr = address
	return WithClient(req).Context()
}

// TestFlood: tokens that nobody knows, from one address, leave places to others, and do not
// drive out what is remembered of valid ones.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &asked{took: time.Second, valid: map[string]bool{fake.Token(1): true, fake.Token(2): true}}
		a := newAuthenticator(k)
		verdictOf(t, a, from(t, "192.0.2.1:1"), fake.Token(1))
		var wg sync.WaitGroup
		var refused atomic.Int64
		begin := time.Now()
		for i := range 10_000 {
			wg.Go(func() {
				if verdictOf(t, a, from(t, fmt.Sprintf("[2001:db8::%x]:1", i)), fake.Token(i+1000)) == "unavailable" {
					refused.Add(1)
					if waited := time.Since(begin); waited > maxWait {
						t.Errorf("refused after %s", waited)
					}
				}
			})
		}
		synctest.Wait()
		if got := verdictOf(t, a, from(t, "192.0.2.1:1"), fake.Token(2)); got != "valid" || time.Since(begin) > time.Second {
			t.Errorf("another address: %s after %s", got, time.Since(begin))
		}
		wg.Wait()
		if times := k.times.Load(); times > 2+4*maxOfClient {
			t.Errorf("asked %d times in %s", times, time.Since(begin))
		}
		if refused.Load() < 9900 {
			t.Errorf("%d refused", refused.Load())
		}
		before := k.times.Load()
		if got := verdictOf(t, a, t.Context(), fake.Token(1)); got != "valid" || k.times.Load() != before {
			t.Errorf("a token that was remembered: %s", got)
		}
		if a.places.clients.Len() != 0 || len(a.places.all) != 0 {
			t.Errorf("%d clients, %d places are left", a.places.clients.Len(), len(a.places.all))
		}
	})
}

func TestWithClient(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1/32", "[::ffff:192.0.2.1]:99": "192.0.2.1/32", "[2001:db8:1:2:3::4]:99": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:99": "fe80::/64", "": "invalid Prefix", "@": "invalid Prefix", "pipe:1": "invalid Prefix",
	} {
		if got := addressOf(WithClient(&http.Request{RemoteAddr: address}).Context()); got != want {
			t.Errorf("%q: %q, not %q", address, got, want)
		}
	}
}

func TestIdentity(t *testing.T) {
	long := strings.Repeat("é", 300)
	trust := func(impersonates bool) func(*keystone.Token) {
		return func(token *keystone.Token) {
			token.Trust = &keystone.Trust{ID: "t", Impersonation: impersonates, Trustee: keystone.Ref{ID: "e"}}
		}
	}
	for name, tc := range map[string]struct {
		change  func(*keystone.Token)
		accept  bool
		refused bool
		groups  string
		domain  string
		system  bool
		extra   map[string]string
	}{
		"project": {change: func(*keystone.Token) {}, groups: "keystone:project:p:r", domain: "d", extra: map[string]string{
			"user-name": "name", "user-domain-id": "home", "project-id": "p", "domain-id": "d", "role-names": "member"}},
		"several roles": {change: func(token *keystone.Token) { token.Roles = append(token.Roles, keystone.Ref{ID: "s", Name: "x"}) },
			groups: "keystone:project:p:r keystone:project:p:s", domain: "d"},
		"domain": {change: func(token *keystone.Token) { token.Project, token.Domain = nil, &keystone.Ref{ID: "e", Name: "n"} },
			groups: "keystone:domain:e:r", domain: "e", extra: map[string]string{"domain-id": "e", "domain-name": "n"}},
		"system": {change: func(token *keystone.Token) { token.Project, token.System.All = nil, true },
			groups: "keystone:system:r", system: true, extra: map[string]string{"system": "all"}},
		"unscoped": {change: func(token *keystone.Token) { token.Project = nil }},
		"application credential": {change: func(token *keystone.Token) {
			token.ApplicationCredential = &keystone.ApplicationCredential{Ref: keystone.Ref{ID: "c"}, Restricted: true}
		}, groups: "keystone:project:p:r", domain: "d", extra: map[string]string{"application-credential-id": "c", "application-credential-restricted": "true"}},
		"trust that impersonates":           {change: trust(true), refused: true},
		"trust that impersonates, accepted": {change: trust(true), accept: true, groups: "keystone:project:p:r", domain: "d", extra: map[string]string{"trust-id": "t", "trustee-user-id": "e"}},
		"trust":                             {change: trust(false), groups: "keystone:project:p:r", domain: "d", extra: map[string]string{"trust-id": "t"}},
		"hostile names": {change: func(token *keystone.Token) {
			token.User.Name, token.Project.Name = "system:admin", "kube-system"
			token.Roles[0].Name = "system:masters"
			token.User.Federation.Groups = []keystone.Ref{{ID: "g", Name: "keystone:project:p:admin"}}
		}, groups: "keystone:project:p:r", domain: "d", extra: map[string]string{"user-name": "system:admin", "role-names": "system:masters", "federated-group-ids": "g"}},
		"names for terminals": {change: func(token *keystone.Token) { token.User.Name, token.Project.Name = "a\x1b[2Jb\n\u202ec\xff", long },
			groups: "keystone:project:p:r", domain: "d", extra: map[string]string{"user-name": "a\ufffd[2Jb\ufffd\ufffdc\ufffd", "project-name": long[:255*2]}},
		"too many roles": {change: func(token *keystone.Token) { token.Roles = make([]keystone.Ref, 257) }, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			token := tokenOf("u", time.Hour)
			tc.change(token)
			got, err := identityOf(token, tc.accept)
			if tc.refused {
				if !errors.Is(err, identity.ErrRefused) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.User.Name != "keystone:u" || got.User.UID != "u" || strings.Join(got.User.Groups, " ") != tc.groups || got.DomainID != tc.domain || got.System != tc.system {
				t.Errorf("%+v, user %+v", got, got.User)
			}
			for key, want := range tc.extra {
				if value := strings.Join(got.User.Extra[identity.KeystoneExtra+key], " "); value != want {
					t.Errorf("extra %s: %q, not %q", key, value, want)
				}
			}
		})
	}
}

// TestLogs: an outage is logged now and then, and without secrets.
func TestLogs(t *testing.T) {
	flags := flag.NewFlagSet("", flag.PanicOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-one_output=true", "-v=9"}); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	klog.SetOutput(&logged)
	server := fake.New()
	server.Close()
	client, err := keystone.New(keystone.Config{URL: server.URL, Clouds: server.Clouds(), Cloud: "asker", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Validate: client.Validate, Timeout: time.Second, TTL: time.Minute, NegativeTTL: time.Second})
	for i := range 1000 {
		if got := verdictOf(t, a, t.Context(), fake.Token(i)); got != "unavailable" {
			t.Error(got)
		}
	}
	klog.Flush()
	klog.SetOutput(nil)
	if err := flags.Parse([]string{"-logtostderr=true", "-v=0"}); err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(logged.Bytes(), []byte("\n")); lines != 1 || !bytes.Contains(logged.Bytes(), []byte("connection refused")) {
		t.Errorf("%d lines: %.2000s", lines, &logged)
	}
	if bytes.Contains(logged.Bytes(), []byte("gAAAAA")) || bytes.Contains(logged.Bytes(), []byte(fake.Password)) {
		t.Errorf("a secret is logged: %.2000s", &logged)
	}
}

// BenchmarkAuthenticate measures a token that is remembered.
func BenchmarkAuthenticate(b *testing.B) {
	a := newAuthenticator(&asked{})
	b.ReportAllocs()
	for b.Loop() {
		if got := verdictOf(b, a, b.Context(), fake.Token(1)); got != "valid" {
			b.Fatal(got)
		}
	}
}
