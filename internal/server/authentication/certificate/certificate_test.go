package certificate

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/tenantry/tenantry/internal/server/authentication/identity"
	"github.com/tenantry/tenantry/internal/tenant"
)

func TestUserOf(t *testing.T) {
	for name, tc := range map[string]struct {
		subject pkix.Name
		tenant  string
		groups  []string
	}{
		"old format":         {pkix.Name{CommonName: "abc:def", Organization: []string{"xyz"}}, "abc", []string{"xyz"}},
		"new format":         {pkix.Name{CommonName: "abc", Organization: []string{"tenant:def"}, OrganizationalUnit: []string{"xyz"}}, "def", []string{"xyz"}},
		"both, the new wins": {pkix.Name{CommonName: "abc:def", Organization: []string{"tenant:ghi"}, OrganizationalUnit: []string{"x", "y"}}, "ghi", []string{"x", "y"}},
		"two colons":         {pkix.Name{CommonName: "abc:def:ghi"}, "abc", nil},
		"no tenant":          {pkix.Name{CommonName: "abc", Organization: []string{"xyz"}}, "", []string{"xyz"}},
		"no tenant, privileged group": {
			pkix.Name{CommonName: "abc", Organization: []string{"xyz", "system:masters"}}, "", []string{"xyz"}},
		"privileged group in a tenant": {
			pkix.Name{CommonName: "abc", Organization: []string{"tenant:def"}, OrganizationalUnit: []string{"system:masters", "system:nodes", "x"}}, "def", []string{"x"}},
		"system":          {pkix.Name{CommonName: "abc", Organization: []string{"tenant:system"}, OrganizationalUnit: []string{"system:masters"}}, "system", []string{"system:masters"}},
		"Kubernetes' own": {pkix.Name{CommonName: "system:kube-scheduler"}, "system", nil},
		"a node":          {pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}, "system", []string{"system:nodes"}},
		"other organizations do not become groups in the new format": {
			pkix.Name{CommonName: "abc", Organization: []string{"tenant:def", "system:masters"}}, "def", nil},
		"only the exact prefix names a tenant": {
			pkix.Name{CommonName: "abc", Organization: []string{"Tenant:def", " tenant:def"}}, "", []string{"Tenant:def", " tenant:def"}},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := userOf([]*x509.Certificate{{Subject: tc.subject}}, true)
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			n, err := tenant.OfUser(response.User)
			if err != nil || string(n) != tc.tenant {
				t.Errorf("tenant %q, %v; want %q", n, err, tc.tenant)
			}
			if diff := cmp.Diff(tc.groups, response.User.GetGroups()); diff != "" {
				t.Error(diff)
			}
			if response.User.GetName() != tc.subject.CommonName {
				t.Errorf("name %q, want %q", response.User.GetName(), tc.subject.CommonName)
			}
			if len(response.User.GetExtra()[user.CredentialIDKey]) != 1 {
				t.Error("the certificate's hash is missing")
			}
		})
	}
}

func TestUserOfRefuses(t *testing.T) {
	for name, subject := range map[string]pkix.Name{
		"empty common name":        {Organization: []string{"tenant:a"}},
		"empty tenant":             {CommonName: "abc", Organization: []string{"tenant:"}},
		"empty tenant, old form":   {CommonName: ":abc"},
		"two tenants":              {CommonName: "abc", Organization: []string{"tenant:a", "tenant:b"}},
		"twice the same":           {CommonName: "abc", Organization: []string{"tenant:a", "tenant:a"}},
		"colon alone":              {CommonName: ":"},
		"invalid tenant":           {CommonName: "abc", Organization: []string{"tenant:A_B"}},
		"invalid tenant, old form": {CommonName: "A_B:abc"},
		"a path":                   {CommonName: "abc", Organization: []string{"tenant:a/../b"}},
		"all":                      {CommonName: "abc", Organization: []string{"tenant:all"}},
		"star":                     {CommonName: "abc", Organization: []string{"tenant:*"}},
		"system name in a tenant":  {CommonName: "system:apiserver", Organization: []string{"tenant:a"}},
		"account of a tenant":      {CommonName: "system:serviceaccount:ns:sa", Organization: []string{"tenant:a"}},
		"the server":               {CommonName: "system:apiserver"},
		"anonymous":                {CommonName: "system:anonymous"},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := userOf([]*x509.Certificate{{Subject: subject}}, true)
			if !errors.Is(err, identity.ErrRefused) {
				t.Errorf("got %v, %v; want a refusal", response, err)
			}
		})
	}
}

func TestUserOfLimited(t *testing.T) {
	for name, subject := range map[string]pkix.Name{
		"new format": {CommonName: "abc", Organization: []string{"tenant:system"}},
		"old format": {CommonName: "system:abc"},
	} {
		t.Run(name, func(t *testing.T) {
			response, err := userOf([]*x509.Certificate{{Subject: subject}}, false)
			if !errors.Is(err, identity.ErrRefused) || !strings.Contains(err.Error(), "may not be given") {
				t.Errorf("got %v, %v; want a refusal", response, err)
			}
		})
	}
}

// FuzzUserOf checks that whatever a subject says, its user is one that the
// formats allow.
func FuzzUserOf(f *testing.F) {
	f.Add("abc:def", "xyz", "tenant:a", "g", true)
	f.Add("abc", "tenant:a", "tenant:b", "system:masters", false)
	f.Add("system:node:n", "system:nodes", "", "", false)
	f.Add(":", "tenant:", "tenant:*", "\x00", true)
	f.Fuzz(func(t *testing.T, name, first, second, unit string, maySystem bool) {
		response, err := userOf([]*x509.Certificate{{Subject: pkix.Name{
			CommonName: name, Organization: []string{first, second}, OrganizationalUnit: []string{unit},
		}}}, maySystem)
		if err != nil {
			if !errors.Is(err, identity.ErrRefused) {
				t.Errorf("%v is no refusal", err)
			}
			return
		}
		n, err := tenant.OfUser(response.User)
		if err != nil {
			t.Fatal(err)
		}
		named := strings.HasPrefix(name, string(n)+":") || slices.Contains([]string{first, second}, "tenant:"+string(n))
		if n != "" && !named || n.Scope().IsMany() || n == tenant.System && !maySystem {
			t.Errorf("subject %q, %q, %q became a user of %q", name, first, second, n)
		}
		if n != tenant.System && slices.Contains(response.User.GetGroups(), user.SystemPrivilegedGroup) {
			t.Errorf("user of %q has groups %q", n, response.User.GetGroups())
		}
	})
}

// FuzzCertificate checks that no certificate that can be parsed makes a panic.
func FuzzCertificate(f *testing.F) {
	ca := newAuthority(f, "ca", nil)
	for _, subject := range []pkix.Name{{CommonName: "abc:def"}, {CommonName: "u", Organization: []string{"tenant:a"}}, {}} {
		f.Add(ca.issue(f, subject).Raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			t.Skip()
		}
		if response, err := userOf([]*x509.Certificate{c}, false); err == nil {
			if n, err := tenant.OfUser(response.User); err != nil || n == tenant.System {
				t.Errorf("tenant %q, %v", n, err)
			}
		}
	})
}
