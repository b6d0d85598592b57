package translate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pair returns a certificate and its key in PEM.
func pair(t *testing.T, change func(*x509.Certificate)) map[string][]byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"shop.acme.example.com"}}
	if change != nil {
		change(template)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": block("CERTIFICATE", certificate), "tls.key": block("PRIVATE KEY", private)}
}

func block(of string, content []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: of, Bytes: content})
}

func TestCertificate(t *testing.T) {
	other := pair(t, func(c *x509.Certificate) { c.DNSNames = []string{"globex.example.com"} })
	named := func(names ...string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames = names }
	}
	common := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name} }
	}
	for name, tc := range map[string]struct {
		of     func(*x509.Certificate)
		change func(map[string][]byte)
		want   string
	}{
		"one for a name":                      {},
		"one for all names":                   {of: named("*.acme.example.com", "acme.example.com")},
		"one in capitals":                     {of: named("Shop.ACME.example.com")},
		"one of a company":                    {of: common("Acme Corp")},
		"one with a name twice":               {of: common("shop.acme.example.com")},
		"another's":                           {of: named("shop.globex.example.com"), want: `for "shop.globex.example.com", which is not one of the host names of this Tenant`},
		"another's, too":                      {of: named("shop.acme.example.com", "shop.globex.example.com"), want: "shop.globex.example.com"},
		"another's as a common name":          {of: common("Shop.globex.example.com"), want: "Shop.globex.example.com"},
		"all of another's":                    {of: common("*.globex.example.com"), want: "*.globex.example.com"},
		"some of another's":                   {of: common("sh*p.globex.example.com"), want: "sh*p.globex.example.com"},
		"one of another's with an underscore": {of: common("a_b.globex.example.com"), want: "a_b.globex.example.com"},
		"another's as one of two common names": {of: func(c *x509.Certificate) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: "shop.globex.example.com"}, {Type: oidCommonName, Value: "Acme Corp"}}
		}, want: "shop.globex.example.com"},
		"another's before a NUL":   {of: common("shop.globex.example.com\x00.acme.example.com"), want: "shop.globex.example.com"},
		"another's before a space": {of: common("shop.globex.example.com "), want: "shop.globex.example.com"},
		"another's behind a dash":  {of: common("-shop.globex.example.com"), want: "shop.globex.example.com"},
		"an address":               {of: func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }, want: "an IP address"},
		"none":                     {change: func(data map[string][]byte) { delete(data, "tls.crt") }, want: "tls.crt has no certificate"},
		"no key":                   {change: func(data map[string][]byte) { delete(data, "tls.key") }, want: "tls.key has no private key"},
		"something else":           {change: func(data map[string][]byte) { data["tls.crt"] = block("TRUSTED CERTIFICATE", []byte("x")) }, want: "something else than certificates"},
		"another's under another name": {change: func(data map[string][]byte) {
			data["tls.crt"] = append(bytes.ReplaceAll(other["tls.crt"], []byte("CERTIFICATE"), []byte("X509 CERTIFICATE")), data["tls.crt"]...)
		}, want: "something else than certificates"},
		"a long one": {change: func(data map[string][]byte) { data["tls.crt"] = bytes.Repeat(data["tls.crt"], 200) }, want: "more than 65536 bytes"},
		"a long key": {change: func(data map[string][]byte) { data["tls.key"] = bytes.Repeat(data["tls.key"], 200) }, want: "more than 16384 bytes"},
		"a curve's key": {change: func(data map[string][]byte) {
			data["tls.key"] = append(block("EC PARAMETERS", []byte("p")), data["tls.key"]...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			data := pair(t, tc.of)
			want := map[string][]byte{"tls.crt": data["tls.crt"], "tls.key": data["tls.key"]}
			if tc.change != nil {
				tc.change(data)
			}
			data["ca.crt"] = []byte("x")
			got, err := granted.Certificate(data)
			switch {
			case tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			case tc.want == "":
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
	// What vouches for it, and nothing that is only to be read by somebody who reads another way.
	data := pair(t, nil)
	want := append(bytes.Clone(data["tls.crt"]), other["tls.crt"]...)
	data["tls.crt"] = append(append([]byte("-----BEGIN X-----\n"), data["tls.crt"]...), append([]byte("text\n"), other["tls.crt"]...)...)
	data["tls.key"] = append(data["tls.key"], other["tls.crt"]...)
	got, err := granted.Certificate(data)
	if err != nil || !bytes.Equal(got["tls.crt"], want) || bytes.Contains(got["tls.key"], []byte("CERTIFICATE")) {
		t.Errorf("got %s %s, %v", got["tls.crt"], got["tls.key"], err)
	}
}
