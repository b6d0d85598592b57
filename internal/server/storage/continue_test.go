package storage

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestContinueTokensAreBoundToTheirSpace(t *testing.T) {
	everywhere := append([]tenant.Scope{tenant.All}, scopes(spaces)...)
	for _, of := range everywhere {
		bound := bindContinue(of, "dG9rZW4")
		for _, in := range append([]tenant.Scope{tenant.Everything}, everywhere...) {
			own, err := unbindContinue(in, bound)
			if in == of && (err != nil || own != "dG9rZW4") {
				t.Errorf("token of %q: %q, %v", of, own, err)
			}
			if in != of && !apierrors.IsBadRequest(err) {
				t.Errorf("token of %q is %q in %q, %v", of, own, in, err)
			}
		}
	}
	for _, token := range []string{".", "..", "foo.", ".dG9rZW4", "FOO.dG9rZW4", "foo/.dG9rZW4", "system.dG9rZW4", "dG9rZW4", "*.dG9rZW4"} {
		for _, in := range []tenant.Scope{"foo", tenant.All, tenant.Everything} {
			if own, err := unbindContinue(in, token); !apierrors.IsBadRequest(err) {
				t.Errorf("%q is %q in %q, %v", token, own, in, err)
			}
		}
	}
	for _, in := range append([]tenant.Scope{tenant.Everything}, everywhere...) {
		if token := bindContinue(in, ""); token != "" {
			t.Errorf("the end of a list of %q has the token %q", in, token)
		}
		if own, err := unbindContinue(in, ""); own != "" || err != nil {
			t.Errorf("no token in %q is %q, %v", in, own, err)
		}
	}
}

func TestContinueTokensOfExpiredListsAreBound(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	expired.ErrStatus.Continue = "dG9rZW4"
	var bound apierrors.APIStatus
	if status, ok := bindContinueError("foo", expired).(apierrors.APIStatus); ok {
		bound = status
	}
	if bound == nil || bound.Status().Continue != "foo.dG9rZW4" || bound.Status().Reason != metav1.StatusReasonExpired {
		t.Errorf("got %v", bound)
	}
	if expired.ErrStatus.Continue != "dG9rZW4" {
		t.Error("the error of the storage was changed")
	}
}

// FuzzContinue checks that no token of whatever content is good in two spaces.
func FuzzContinue(f *testing.F) {
	f.Add("foo.dG9rZW4", "foo", "foobar")
	f.Add("dG9rZW4", "system", "foo")
	f.Add("a.b.c", "a", "a.b")
	f.Add("..", "", ".")
	f.Add("*.x", "*", "all")
	f.Fuzz(func(t *testing.T, token, first, second string) {
		own, err := unbindContinue(tenant.Scope(first), token)
		if err != nil || token == "" {
			return
		}
		if first == second {
			return
		}
		if again := bindContinue(tenant.Scope(first), own); again != token {
			t.Errorf("%q of %q is %q when it is bound again", token, first, again)
		}
		if strings.ContainsAny(first+second, continueSeparator) {
			return // no names of tenants
		}
		if other, err := unbindContinue(tenant.Scope(second), token); err == nil {
			t.Errorf("%q is %q in %q and %q in %q", token, own, first, other, second)
		}
	})
}

// FuzzForgedContinue checks what a list answers to tokens that a client makes up:
// objects of the space alone, or an error.
func FuzzForgedContinue(f *testing.F) {
	b := newBackend(f)
	stores := []*store{b.configMaps(f, true), b.configMaps(f, false)}
	for _, n := range spaces {
		stores[0].create(f, n, "foo", "x")
	}
	for _, start := range []string{
		"", "/", "..", "../foobar", "../../t/foobar/foo/x", "/../../foobar/", "\x00", "foo/x\x00", "~", "\xff",
		"foobar/foo/x", "t/foobar/foo/x", "/registry/configmaps/foobar/foo/x", "foo/../../foobar/foo/x",
	} {
		for _, revision := range []int64{-1, 0, 1, 5} {
			f.Add(start, revision, "meta.k8s.io/v1")
		}
	}
	f.Add("foo/x", int64(5), "meta.k8s.io/v2")
	f.Fuzz(func(t *testing.T, start string, revision int64, format string) {
		token, err := json.Marshal(map[string]any{"v": format, "rv": revision, "start": start})
		if err != nil {
			t.Skip("no token")
		}
		for _, s := range stores {
			for _, n := range []tenant.Scope{"foo", tenant.System.Scope()} {
				for _, namespace := range []string{"", "foo"} {
					forged := bindContinue(n, base64.RawURLEncoding.EncodeToString(token))
					found, _, err := s.tryList(t, n, namespace, page(500, forged))
					if err != nil {
						continue
					}
					for _, object := range found {
						if !strings.HasPrefix(object, string(n)+":"+namespace) {
							t.Errorf("the list of %q has %q", n, object)
						}
					}
				}
			}
		}
	})
}
