package authentication

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestUserOfCertificate(t *testing.T) {
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
		"Kubernetes' own":    {pkix.Name{CommonName: "system:kube-scheduler"}, "system", nil},
		"other organizations do not become groups in the new format": {
			pkix.Name{CommonName: "abc", Organization: []string{"tenant:def", "system:masters"}}, "def", nil},
	} {
		t.Run(name, func(t *testing.T) {
			response, ok, err := userOfCertificate([]*x509.Certificate{{Subject: tc.subject}})
			if err != nil || !ok {
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
		})
	}
}

func TestUserOfCertificateRefuses(t *testing.T) {
	for name, subject := range map[string]pkix.Name{
		"empty common name":        {Organization: []string{"tenant:a"}},
		"empty tenant":             {CommonName: "abc", Organization: []string{"tenant:"}},
		"two tenants":              {CommonName: "abc", Organization: []string{"tenant:a", "tenant:b"}},
		"colon alone":              {CommonName: ":"},
		"invalid tenant":           {CommonName: "abc", Organization: []string{"tenant:A_B"}},
		"invalid tenant, old form": {CommonName: "A_B:abc"},
		"all":                      {CommonName: "abc", Organization: []string{"tenant:all"}},
		"star":                     {CommonName: "abc", Organization: []string{"tenant:*"}},
		"system name in a tenant":  {CommonName: "system:apiserver", Organization: []string{"tenant:a"}},
	} {
		t.Run(name, func(t *testing.T) {
			response, ok, err := userOfCertificate([]*x509.Certificate{{Subject: subject}})
			if ok || !errors.Is(err, errRejected) {
				t.Errorf("got %v, %v, %v; want a rejection", response, ok, err)
			}
		})
	}
}
