package pki

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/tenant"
)

// mounted returns a directory as Load wants it, and the authority of system users.
func mounted(t *testing.T) (string, *Authority) {
	t.Helper()
	dir := t.TempDir()
	ensure(t, dir)
	system, err := NewAuthority("system")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "system-ca.crt"), system.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"server-ca.key", "front-proxy-ca.crt", "front-proxy-ca.key"} {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, system
}

func TestLoad(t *testing.T) {
	dir, system := mounted(t)
	before := read(t, dir)
	p, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(system.PEM()), string(p.SystemCA.PEM())); diff != "" {
		t.Errorf("the authority of system users (-want +got):\n%s", diff)
	}
	if p.ServerCA.File != filepath.Join(dir, "server-ca.crt") || p.SystemCA.File != filepath.Join(dir, "system-ca.crt") {
		t.Errorf("authorities lie in %s and %s", p.ServerCA.File, p.SystemCA.File)
	}
	if _, _, err := p.ClientCertificate(0, "acme", "jane"); err != nil {
		t.Errorf("signing for a tenant's user: %v", err)
	}
	if diff := cmp.Diff([]string(nil), changed(before, read(t, dir))); diff != "" {
		t.Errorf("files were written: %s", diff)
	}
}

func TestLoadRefuses(t *testing.T) {
	whole, _ := mounted(t)
	other, _ := mounted(t)
	type files = map[string]string
	for name, tc := range map[string]struct {
		spoil func(files)
		want  string
	}{
		"no file":                          {func(f files) { clear(f) }, "is --pki-dir right?"},
		"no authority of system users":     {func(f files) { delete(f, "system-ca.crt") }, "is --pki-dir right?"},
		"no authority of servers":          {func(f files) { delete(f, "server-ca.crt") }, "is --pki-dir right?"},
		"no key of the tenants' authority": {func(f files) { delete(f, "client-ca.key") }, "is --pki-dir right?"},
		"no key of service accounts":       {func(f files) { delete(f, "service-account.key") }, "is --pki-dir right?"},
		"no serving certificate":           {func(f files) { delete(f, "server.crt") }, "is --pki-dir right?"},
		"the key of another certificate":   {func(f files) { f["server.key"] = read(t, other)["server.key"] }, "do not belong together"},
		"the key of another front proxy":   {func(f files) { f["front-proxy-client.key"] = read(t, other)["server.key"] }, "do not belong together"},
		"an empty certificate":             {func(f files) { f["system-ca.crt"] = "" }, "holds no certificate"},
		"an empty key":                     {func(f files) { f["service-account.key"] = "" }, "holds no private key"},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := maps.Clone(read(t, whole))
			tc.spoil(spoilt)
			dir := t.TempDir()
			for file, content := range spoilt {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestParseAuthority(t *testing.T) {
	made, err := NewAuthority("one")
	if err != nil {
		t.Fatal(err)
	}
	key, err := made.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParseAuthority("one", made.PEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, leafKey, err := parsed.Issue(FrontProxyTemplate())
	if err != nil {
		t.Fatal(err)
	}
	if !made.Fits(certPEM, leafKey, FrontProxyTemplate(), time.Hour) {
		t.Error("the parsed authority is another one")
	}
	other, err := NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	for want, pair := range map[string][2][]byte{
		"one.crt holds no certificate":                   {nil, key},
		"one.key holds no private key":                   {made.PEM(), nil},
		"one.crt and one.key do not belong together":     {other.PEM(), key},
		"one.crt is not the certificate of an authority": {certPEM, leafKey},
	} {
		if _, err := ParseAuthority("one", pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

func TestFits(t *testing.T) {
	authority, err := NewAuthority("one")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewAuthority("other")
	if err != nil {
		t.Fatal(err)
	}
	template := ServingTemplate("a.example.com", "192.0.2.1")
	certPEM, key, err := authority.Issue(ServingTemplate("192.0.2.1", "a.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := authority.Issue(template)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		got, want bool
	}{
		"as it was issued":     {authority.Fits(certPEM, key, template, leafLifetime-time.Hour), true},
		"not for long enough":  {authority.Fits(certPEM, key, template, leafLifetime), false},
		"of another authority": {other.Fits(certPEM, key, template, time.Hour), false},
		"with other names":     {authority.Fits(certPEM, key, ServingTemplate("a.example.com"), time.Hour), false},
		"with another key":     {authority.Fits(certPEM, otherKey, template, time.Hour), false},
		"without a key":        {authority.Fits(certPEM, nil, template, time.Hour), false},
		"nothing":              {authority.Fits(nil, nil, template, time.Hour), false},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %v", name, tc.got)
		}
	}
	p := &PKI{ClientCA: authority}
	if certPEM, key, err = p.ClientCertificate(48*time.Hour, tenant.System, "admin", "system:masters"); err != nil {
		t.Fatal(err)
	}
	if !p.IsClientCertificate(certPEM, key, 24*time.Hour, tenant.System, "admin", "system:masters") {
		t.Error("a certificate is not the one that it was issued as")
	}
	if p.IsClientCertificate(certPEM, key, 24*time.Hour, "acme", "admin", "system:masters") {
		t.Error("a certificate is that of another tenant")
	}
}

// TestFitsGroupsInAnyOrder checks that a certificate is the one that it was issued as whatever
// order its groups have: DER has them in its own.
func TestFitsGroupsInAnyOrder(t *testing.T) {
	authority, err := NewAuthority("one")
	if err != nil {
		t.Fatal(err)
	}
	p := &PKI{ClientCA: authority}
	for _, issued := range [][]string{{"developers", "ops"}, {"ops", "developers"}} {
		certPEM, key, err := p.ClientCertificate(48*time.Hour, "acme", "admin", issued...)
		if err != nil {
			t.Fatal(err)
		}
		for _, asked := range [][]string{{"developers", "ops"}, {"ops", "developers"}} {
			before := slices.Clone(asked)
			if !p.IsClientCertificate(certPEM, key, 24*time.Hour, "acme", "admin", asked...) {
				t.Errorf("a certificate of %v is not one of %v", issued, asked)
			}
			if !slices.Equal(asked, before) {
				t.Errorf("the caller's groups %v became %v", before, asked)
			}
		}
		for _, asked := range [][]string{nil, {"ops"}, {"developers", "ops", "security"}, {"developers", "other"}} {
			if p.IsClientCertificate(certPEM, key, 24*time.Hour, "acme", "admin", asked...) {
				t.Errorf("a certificate of %v is one of %v", issued, asked)
			}
		}
	}
}
