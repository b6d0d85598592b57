package keystone

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/internal/keystone"
	"github.com/tenantry/tenantry/internal/server/authentication/identity"
)

// doors is a Keystone that knows one password, right, of every user.
type doors struct {
	asked, failed atomic.Int64
	took          time.Duration
	err           atomic.Pointer[error]
	roles         []keystone.RoleOn
}

func (d *doors) logIn(_ context.Context, domainID, name string, password keystone.Secret) (*keystone.Access, error) {
	d.asked.Add(1)
	time.Sleep(d.took)
	if err := d.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	if password != "right" {
		d.failed.Add(1)
		return nil, keystone.ErrNotValid
	}
	token := tokenOf("id-of-"+strings.ToLower(name), time.Hour)
	token.Project, token.Roles, token.User.Domain.ID = nil, nil, domainID
	return &keystone.Access{Token: token, Roles: d.roles}, nil
}

func (d *doors) answers(err error) { d.err.Store(&err) }

func newPasswords(d *doors) *Authenticator {
	return New(Config{LogIn: d.logIn, Timeout: 2 * time.Minute, TTL: time.Minute, NegativeTTL: 10 * time.Second})
}

// enter says what becomes of a password: "valid", "refused", "limited", "unavailable".
func enter(t testing.TB, a *Authenticator, ctx context.Context, name, password string) string {
	t.Helper()
	found, err := a.Password(ctx, "uid", "d", name, password)
	var limited *identity.Limited
	switch {
	case errors.As(err, &limited):
		if limited.After <= 0 || !errors.Is(err, identity.ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		return "limited"
	case errors.Is(err, identity.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, identity.ErrRefused):
		return "refused"
	case err != nil || found == nil:
		t.Errorf("found %v, error %v", found, err)
		return "error"
	default:
		return "valid"
	}
}

func TestOnlyPasswordsAreSent(t *testing.T) {
	for name, tc := range map[string]struct {
		user, password string
		sent           bool
	}{
		"usual":                  {"jane", "right", true},
		"characters of any kind": {"jäne@example.com \\/", "p w\U0001f4a5", true},
		"longest":                {strings.Repeat("ä", 255), strings.Repeat("a", 4096), true},
		"no name":                {"", "right", false},
		"no password":            {"jane", "", false},
		"long name":              {strings.Repeat("a", 256), "right", false},
		"long password":          {"jane", strings.Repeat("a", 4097), false},
		"NUL in the name":        {"jane\x00x", "right", false},
		"NUL in the password":    {"jane", "right\x00", false},
		"line in the name":       {"jane\n", "right", false},
		"line in the password":   {"jane", "right\r", false},
		"control of Unicode":     {"jane", "a\u0085", false},
		"name not in UTF-8":      {"jane\xff", "right", false},
		"password not in UTF-8":  {"jane", "\xff", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doors{}
			got := enter(t, newPasswords(d), t.Context(), tc.user, tc.password)
			if (d.asked.Load() == 1) != tc.sent || !tc.sent && got != "refused" {
				t.Errorf("%s, asked %d times", got, d.asked.Load())
			}
		})
	}
}

// TestOneAttempt: requests with one wrong password are one attempt, at once and later.
func TestOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doors{took: time.Second}
		a := newPasswords(d)
		burst := func() {
			var wg sync.WaitGroup
			for i := range 1000 {
				wg.Go(func() {
					if got := enter(t, a, from(t, fmt.Sprintf("192.0.2.%d:1", i%200)), "jane", "wrong"); got != "refused" {
						t.Error(got)
					}
				})
			}
			wg.Wait()
		}
		burst()
		time.Sleep(59 * time.Second)
		burst()
		if d.asked.Load() != 1 {
			t.Errorf("%d attempts", d.asked.Load())
		}
		if got := enter(t, a, t.Context(), "jane", "right"); got != "valid" {
			t.Errorf("the right one: %s", got)
		}
		time.Sleep(2 * time.Second)
		if burst(); d.failed.Load() != 2 {
			t.Errorf("%d failed attempts", d.failed.Load())
		}
	})
}

// TestAttempts: of one user, and from one address, few wrong passwords are sent. Right ones do
// not count.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doors{}
		a := newPasswords(d)
		for i := range 100 {
			enter(t, a, from(t, fmt.Sprintf("192.0.2.%d:1", i)), []string{"jane", "Jane", "JANE "}[i%3], fmt.Sprint("wrong", i))
		}
		if d.failed.Load() != userAttempts {
			t.Errorf("%d of a user", d.failed.Load())
		}
		if got := enter(t, a, from(t, "198.51.100.1:1"), "jane", "right"); got != "limited" {
			t.Errorf("the right one: %s", got)
		}
		time.Sleep(userPause)
		if got := enter(t, a, from(t, "198.51.100.1:1"), "jane", "right"); got != "valid" {
			t.Errorf("the right one, later: %s", got)
		}
		time.Sleep(2 * time.Minute) // until nothing is remembered
		if got := enter(t, a, from(t, "203.0.113.1:1"), "jane", "right"); got != "valid" {
			t.Errorf("from another address: %s", got)
		}
		if got := enter(t, a, from(t, "198.51.100.2:1"), "elsewhere", "right"); got != "valid" {
			t.Errorf("from an address of its own: %s", got)
		}
		before := d.failed.Load()
		for i := range 100 {
			enter(t, a, from(t, "203.0.113.1:1"), fmt.Sprint("user", i), "wrong")
		}
		if failed := d.failed.Load() - before; failed != addressAttempts {
			t.Errorf("%d of an address", failed)
		}
		time.Sleep(2 * time.Minute) // until nothing is remembered
		for i := range 2 * addressAttempts {
			enter(t, a, from(t, "203.0.113.1:1"), fmt.Sprint("another", i), "wrong")
		}
		if got := enter(t, a, from(t, "203.0.113.1:1"), "jane", "right"); got != "valid" {
			t.Errorf("who has logged in before: %s", got)
		}
		for _, name := range []string{"new", "elsewhere"} {
			if got := enter(t, a, from(t, "203.0.113.1:1"), name, "right"); got != "limited" {
				t.Errorf("who has not: %s", got)
			}
		}
		if got := enter(t, a, from(t, "203.0.113.1:1"), "a\x00name", "right"); got != "limited" {
			t.Errorf("a name that nobody has: %s", got)
		}
		if got := enter(t, a, from(t, "198.51.100.1:1"), "user99", "right"); got != "valid" {
			t.Errorf("from another address: %s", got)
		}
		if a.users.names.Len() > 2*addressAttempts+3 {
			t.Errorf("%d users are counted for an address that may try no more", a.users.names.Len())
		}
		time.Sleep(addressPause)
		for i := range 100 {
			if got := enter(t, a, from(t, "203.0.113.1:1"), fmt.Sprint("other", i), "right"); got != "valid" {
				t.Fatalf("right ones count: %s", got)
			}
		}
		if n := a.users.names.Len(); n > maxBuckets {
			t.Errorf("%d users are counted", n)
		}
	})
}

// TestSpelling: the spellings by which MySQL finds one user are one.
func TestSpelling(t *testing.T) {
	for one, others := range map[string][]string{
		"jane":   {"Jane", "JANE ", " jane", "j\u00e4n\u00e9", "ja\u0308ne", "\uff2a\uff41\uff4e\uff45", "ja\u200bne", "j\u00adane", "\u00a0jane"},
		"strase": {"Stra\u00dfe", "STRA\u1e9eE"},
		"ffi":    {"\ufb03"},
	} {
		for _, other := range others {
			if got := spelling(other); got != one {
				t.Errorf("%+q is spelt as %+q, not as %q", other, got, one)
			}
		}
	}
	for one, others := range map[string][]string{
		"strasse":    {"straße", "STRAẞE", "strase", "ſtraſſe", "strassse"},
		"ilir":       {"ılir", "İLIR", "ILIR"},
		"soren":      {"søren", "Sören", "SØREN"},
		"lodz":       {"łódź", "ŁÓDŹ", "lo\u0335dz\u0488"},
		"aegir":      {"ægir", "Ǽgir"},
		"gala":       {"gaŀa"},
		"さっか":        {"サッカ", "さつか", "ｻｯｶ"},
		"jane\u3164": {"jane", "jane\u115f", "jane\u180e"},
		"a😀":         {"a😁", "A?", "a𐀀"},
	} {
		for _, other := range others {
			if got, want := spelling(other), spelling(one); got != want {
				t.Errorf("%q is %q, and %q is %q", other, got, one, want)
			}
		}
	}
	if spelling("jane") == spelling("john") || spelling("\u5f35\u5049") == spelling("\u5f20\u4f1f") {
		t.Error("other names are spelt alike")
	}
}

// TestPasswordRemembered: what is remembered ends with its time, and with the tenant.
func TestPasswordRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doors{}
		a := newPasswords(d)
		ask := func(binding, domain, name string, want int64) {
			t.Helper()
			if _, err := a.Password(t.Context(), binding, domain, name, "right"); err != nil || d.asked.Load() != want {
				t.Errorf("asked %d times, not %d: %v", d.asked.Load(), want, err)
			}
		}
		ask("uid", "d", "jane", 1)
		ask("uid", "d", "jane", 1)
		ask("uid of another", "d", "jane", 2)
		ask("uid", "e", "jane", 3)
		ask("uid", "d", "john", 4)
		time.Sleep(59 * time.Second)
		ask("uid", "d", "jane", 4)
		time.Sleep(2 * time.Second)
		ask("uid", "d", "jane", 5)
	})
}

// TestPasswordOutage: an outage is neither a refusal nor an attempt, unless Keystone may have
// counted it.
func TestPasswordOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &doors{}
		a := newPasswords(d)
		d.answers(&keystone.Error{Doing: "asking", Status: 503})
		for range 100 {
			if got := enter(t, a, t.Context(), "jane", "right"); got != "unavailable" {
				t.Fatal(got)
			}
		}
		d.answers(nil)
		if got := enter(t, a, t.Context(), "jane", "right"); got != "valid" {
			t.Error(got)
		}
		d.answers(&keystone.Error{Doing: "asking", Cause: keystone.ErrNoAnswer})
		before := d.asked.Load()
		for range 100 {
			enter(t, a, t.Context(), "john", "right")
		}
		if asked := d.asked.Load() - before; asked != userAttempts {
			t.Errorf("%d attempts", asked)
		}
		if got := enter(t, a, t.Context(), "jane", "right"); got != "valid" {
			t.Errorf("remembered: %s", got)
		}
	})
}

func TestAccess(t *testing.T) {
	d := &doors{roles: []keystone.RoleOn{{RoleID: "t"}, {ProjectID: "p", RoleID: "r"}, {ProjectID: "q", RoleID: "r"}}}
	a := newPasswords(d)
	found, err := a.Password(t.Context(), "uid", "d", "jane", "right")
	if err != nil {
		t.Fatal(err)
	}
	if groups := strings.Join(found.User.Groups, " "); groups != "keystone:domain:d:t keystone:project:p:r keystone:project:q:r" ||
		found.User.Name != "keystone:id-of-jane" || found.DomainID != "d" || found.System {
		t.Errorf("%+v, user %+v", found, found.User)
	}
	d.roles = make([]keystone.RoleOn, maxGroups+1)
	if got := enter(t, a, t.Context(), "john", "right"); got != "refused" {
		t.Errorf("too many roles: %s", got)
	}
}

// BenchmarkPassword measures a password that is remembered.
func BenchmarkPassword(b *testing.B) {
	a := newPasswords(&doors{})
	b.ReportAllocs()
	for b.Loop() {
		if got := enter(b, a, b.Context(), "jane", "right"); got != "valid" {
			b.Fatal(got)
		}
	}
}
