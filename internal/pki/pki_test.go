package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/atomicfile"
	"github.com/tenantry/tenantry/internal/tenant"
)

func ensure(t *testing.T, dir string, hosts ...string) *PKI {
	t.Helper()
	p, err := Ensure(dir, hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(data)
	}
	return files
}

// changed names the files that differ.
func changed(before, after map[string]string) []string {
	var names []string
	for name, data := range after {
		if before[name] != data {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestEnsureKeeps(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	p := ensure(t, dir, "192.0.2.1", "example.org")
	before := read(t, dir)
	for name := range before {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	ensure(t, dir, "example.org", "192.0.2.1")
	if got := changed(before, read(t, dir)); got != nil {
		t.Errorf("second start changed %v", got)
	}
	serving, err := loadCertificates(p.path("server.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.ServerCA.PEM())
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc", "192.0.2.1", "example.org"} {
		if _, err := serving[0].Verify(x509.VerifyOptions{DNSName: host, Roots: pool}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	ensure(t, dir, "other.example.org")
	want := []string{"server.crt", "server.key"}
	if diff := cmp.Diff(want, changed(before, read(t, dir))); diff != "" {
		t.Errorf("another host name changed: %s", diff)
	}
}

func TestEnsureRenewsLeaf(t *testing.T) {
	dir := t.TempDir()
	p := ensure(t, dir)
	before := read(t, dir)
	template := ServingTemplate()
	template.NotAfter = time.Now().Add(renewBefore - time.Hour)
	key, err := loadKey(p.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sign(template, p.ServerCA.cert, key.Public(), p.ServerCA.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(p.path("server.crt"), encodeCertificate(raw)); err != nil {
		t.Fatal(err)
	}
	ensure(t, dir)
	want := []string{"server.crt", "server.key"}
	if diff := cmp.Diff(want, changed(before, read(t, dir))); diff != "" {
		t.Error(diff)
	}
}

func TestEnsureAfterCrash(t *testing.T) {
	dir := t.TempDir()
	p := ensure(t, dir)
	key := read(t, dir)["client-ca.key"]
	for _, name := range []string{"client-ca.crt", "server.crt"} {
		if err := os.Remove(p.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	ensure(t, dir)
	if read(t, dir)["client-ca.key"] != key {
		t.Error("the key that was there was not used")
	}
}

// TestEnsureGoesOn checks that a first start that has crashed is gone on with, wherever that was.
func TestEnsureGoesOn(t *testing.T) {
	for i := range made {
		dir := t.TempDir()
		p := ensure(t, dir)
		for _, name := range made[i:] {
			_ = os.Remove(p.path(name))
			_ = os.Remove(p.path(strings.TrimSuffix(name, ".key") + ".crt"))
		}
		kept := read(t, dir)
		ensure(t, dir)
		for _, name := range made[:i] {
			if read(t, dir)[name] != kept[name] {
				t.Errorf("%s was made anew", name)
			}
		}
	}
}

func TestEnsureRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		breakIt func(t *testing.T, p *PKI)
		want    string
	}{
		"corrupt certificate": {func(t *testing.T, p *PKI) { write(t, p.path("client-ca.crt"), "junk") }, "client-ca.crt holds no certificate"},
		"corrupt key":         {func(t *testing.T, p *PKI) { write(t, p.path("server-ca.key"), "junk") }, "server-ca.key holds no private key"},
		"corrupt token key":   {func(t *testing.T, p *PKI) { write(t, p.path("service-account.key"), "") }, "service-account.key holds no private key"},
		"corrupt leaf":        {func(t *testing.T, p *PKI) { write(t, p.path("server.crt"), "") }, "server.crt holds no certificate"},
		"lost key":            {func(t *testing.T, p *PKI) { _ = os.Remove(p.path("client-ca.key")) }, "client-ca.key is missing, and front-proxy-ca.key is there"},
		"lost authority": {func(t *testing.T, p *PKI) {
			_ = os.Remove(p.path("client-ca.key"))
			_ = os.Remove(p.path("client-ca.crt"))
		}, "with another authority, every certificate of this one would be refused"},
		"lost token key": {func(t *testing.T, p *PKI) { _ = os.Remove(p.ServiceAccountKey()) },
			"every token of a service account would be refused. Restore it from a backup"},
		"foreign key": {func(t *testing.T, p *PKI) {
			data, err := os.ReadFile(p.path("server-ca.key"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, p.path("client-ca.key"), string(data))
		}, "do not belong together"},
		"expired authority": {func(t *testing.T, p *PKI) {
			template := *p.ClientCA.cert
			template.NotAfter = time.Now().Add(-time.Second)
			raw, err := sign(&template, &template, p.ClientCA.key.Public(), p.ClientCA.key)
			if err != nil {
				t.Fatal(err)
			}
			write(t, p.path("client-ca.crt"), string(encodeCertificate(raw)))
		}, "client-ca.crt expired on"},
		"leaf instead of authority": {func(t *testing.T, p *PKI) {
			certPEM, keyPEM, err := p.ClientCertificate(0, "acme", "u")
			if err != nil {
				t.Fatal(err)
			}
			write(t, p.path("client-ca.crt"), string(certPEM))
			write(t, p.path("client-ca.key"), string(keyPEM))
		}, "not the certificate of an authority"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tc.breakIt(t, ensure(t, dir))
			before := read(t, dir)
			_, err := Ensure(dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
			if got := changed(before, read(t, dir)); got != nil {
				t.Errorf("changed %v", got)
			}
		})
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	ensure(t, dir)
	p, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM, err := p.ClientCertificate(0, "acme", "alice", "dev", "ops")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(p.ClientCA.PEM())
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	subject := pair.Leaf.Subject
	if subject.CommonName != "alice" {
		t.Errorf("CN = %q", subject.CommonName)
	}
	if diff := cmp.Diff([]string{"tenant:acme"}, subject.Organization); diff != "" {
		t.Error(diff)
	}
	slices.Sort(subject.OrganizationalUnit) // a set in DER
	if diff := cmp.Diff([]string{"dev", "ops"}, subject.OrganizationalUnit); diff != "" {
		t.Error(diff)
	}
	if _, _, err := p.ClientCertificate(0, tenant.System, ""); err == nil {
		t.Error("a certificate without user")
	}
}

func TestOpenNothing(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tenantry up") {
		t.Errorf("got error %v", err)
	}
}

// TestOverlap has the certificate of an earlier authority behind that of the present one.
func TestOverlap(t *testing.T) {
	earlier := ensure(t, t.TempDir())
	dir := t.TempDir()
	p := ensure(t, dir)
	bundle := append(p.ClientCA.PEM(), earlier.ClientCA.PEM()...)
	if err := atomicfile.Write(p.ClientCA.File, bundle); err != nil {
		t.Fatal(err)
	}
	again := ensure(t, dir)
	if diff := cmp.Diff(string(bundle), string(again.ClientCA.PEM())); diff != "" {
		t.Error(diff)
	}
	certPEM, _, err := again.ClientCertificate(time.Hour, "acme", "u")
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certPEM)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckSignatureFrom(p.ClientCA.cert); err != nil {
		t.Errorf("not signed by the present authority: %v", err)
	}
	if got := c.NotAfter.Sub(c.NotBefore); got != time.Hour {
		t.Errorf("valid for %s", got)
	}
	// The other way round, the key is not that of the first certificate.
	if err := atomicfile.Write(p.ClientCA.File, append(earlier.ClientCA.PEM(), p.ClientCA.PEM()...)); err != nil {
		t.Fatal(err)
	}
	if _, err := Ensure(dir); err == nil {
		t.Error("an authority without its key was accepted")
	}
}
