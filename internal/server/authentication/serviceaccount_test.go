package authentication

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/server/authentication/webtoken"
	"github.com/tenantry/tenantry/internal/tenant"
)

const systemIssuer = "https://issuer.example.org/"

// newTokenKeys returns keys of which one signs.
func newTokenKeys(t *testing.T) *TokenKeys {
	t.Helper()
	files := newKeyFiles(t)
	private, public := newPair(t)
	files.write(t, files.key(), private)
	files.write(t, files.public(), public)
	return openTokenKeys(t, files)
}

func account(namespace string) corev1.ServiceAccount {
	return corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa", Namespace: namespace, UID: "uid"}}
}

func secretOf(name string) corev1.Secret {
	return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// systemTokensOnly is a generator that says what it was asked for.
type systemTokensOnly struct{}

func (systemTokensOnly) GenerateToken(context.Context, *jwt.Claims, any) (string, error) {
	return "of the system space", nil
}

func TestTokenGenerator(t *testing.T) {
	claims := &jwt.Claims{Subject: "system:serviceaccount:ns:sa"}
	private := map[string]any{"kubernetes.io": map[string]any{"namespace": "ns"}}
	withKey := NewTokenGenerator(systemTokensOnly{}, systemIssuer, newTokenKeys(t))
	withoutKey := NewTokenGenerator(systemTokensOnly{}, systemIssuer, nil)
	token, err := withKey.GenerateToken(tenant.WithSpace(t.Context(), "a"), claims, private)
	if err != nil {
		t.Fatal(err)
	}
	said := webtoken.Parse(token)
	got := []string{said.Text("iss"), said.Text("sub"), said.Text(tenantClaim), string(claimedTenant(token))}
	if diff := cmp.Diff([]string{"https://issuer.example.org/tenants/a", claims.Subject, "a", "a"}, got); diff != "" {
		t.Error(diff)
	}
	token, err = withKey.GenerateToken(tenant.WithSpace(t.Context(), tenant.System), claims, private)
	if said := webtoken.Parse(token); err != nil || said.Text("iss") != systemIssuer || said.Text(tenantClaim) != "" {
		t.Errorf("in the system space: %q, %v", token, err)
	}
	if token, err := withoutKey.GenerateToken(tenant.WithSpace(t.Context(), tenant.System), claims, private); err != nil || token != "of the system space" {
		t.Errorf("in the system space, without a key: %q, %v", token, err)
	}
	for _, generator := range []serviceaccount.TokenGenerator{withKey, withoutKey} {
		if token, err := generator.GenerateToken(t.Context(), claims, private); err == nil {
			t.Errorf("in no space: %q", token)
		}
	}
	if token, err := withoutKey.GenerateToken(tenant.WithSpace(t.Context(), "a"), claims, private); err == nil {
		t.Errorf("without a key: %q", token)
	}
}

func TestLegacyTokens(t *testing.T) {
	generator := NewLegacyTokens(newTokenKeys(t))
	for namespace, want := range map[string]tenant.Name{"ns": "", "a|ns": "a"} {
		claims, private := serviceaccount.LegacyClaims(account(namespace), secretOf("secret"))
		token, err := generator.GenerateToken(t.Context(), claims, private)
		if err != nil {
			t.Fatal(err)
		}
		said := webtoken.Parse(token)
		got := []string{said.Text("iss"), said.Text("sub"), said.Text(namespaceClaim), string(claimedTenant(token))}
		if diff := cmp.Diff([]string{serviceaccount.LegacyIssuer, "system:serviceaccount:ns:sa", "ns", string(want)}, got); diff != "" {
			t.Errorf("%s: %s", namespace, diff)
		}
	}
}

func TestDiscoveryInSpace(t *testing.T) {
	system := []byte(`{"issuer":"https://issuer.example.org/","jwks_uri":"https://host:6443/openid/v1/jwks","subject_types_supported":["public"]}`)
	for name, tc := range map[string]struct{ jwksURI, want string }{
		"keys in the space":   {"", "https://host:6443/tenants/a/openid/v1/jwks"},
		"keys somewhere else": {"https://keys.example.org", "https://host:6443/openid/v1/jwks"},
	} {
		t.Run(name, func(t *testing.T) {
			document, err := Issuer{URL: systemIssuer, JWKSURI: tc.jwksURI, Address: "host:6443"}.document(system, "a")
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(document, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]any{
				"issuer": "https://issuer.example.org/tenants/a", "jwks_uri": tc.want, "subject_types_supported": []any{"public"},
			}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
