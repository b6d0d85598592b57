package translate

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pair returns a certificate and its key in PEM.
func pair(t *testing.T, change func(*x509.Certificate)) map[string][]byte {
	t.Helper()
	key := ecKey(t, elliptic.P256())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": certificate(t, key, change), "tls.key": block("PRIVATE KEY", private)}
}

// certificate returns that of a key, which it signs itself, in PEM.
func certificate(t *testing.T, key crypto.Signer, change func(*x509.Certificate)) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"shop.acme.example.com"}}
	if change != nil {
		change(template)
	}
	written, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", written)
}

// issued returns a certificate of a key that another one signs, in PEM.
func issued(t *testing.T, key crypto.PublicKey, by crypto.Signer) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "An authority"}, AuthorityKeyId: []byte("a"), DNSNames: []string{"shop.acme.example.com"}}
	written, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "Root"}}, key, by)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", written)
}

// rsaKey returns a key of RSA.
func rsaKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ecKey returns a key of ECDSA.
func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
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
		"one that few understand": {of: func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 1}, Critical: true, Value: []byte{5, 0}}}
		}, want: "the critical extension 1.3.6.1.4.1.1"},
		"one for nothing": {of: named(), want: "for no host name"},
		"an address":      {of: func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }, want: "an IP address"},
		"mail":            {of: func(c *x509.Certificate) { c.EmailAddresses = []string{"shop.globex.example.com"} }, want: "an address of mail or a URI"},
		"a URI":           {of: func(c *x509.Certificate) { c.URIs = []*url.URL{{Host: "shop.globex.example.com"}} }, want: "an address of mail or a URI"},
		"none":            {change: func(data map[string][]byte) { delete(data, "tls.crt") }, want: "tls.crt has no certificate"},
		"no key":          {change: func(data map[string][]byte) { delete(data, "tls.key") }, want: "tls.key has no private key"},
		"something else":  {change: func(data map[string][]byte) { data["tls.crt"] = block("TRUSTED CERTIFICATE", []byte("x")) }, want: "something else than certificates"},
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
	by := issued(t, ecKey(t, elliptic.P384()).Public(), rsaKey(t, 2048))
	want := append(bytes.Clone(data["tls.crt"]), by...)
	data["tls.crt"] = append(append([]byte("-----BEGIN X-----\n"), data["tls.crt"]...), append([]byte("text\n"), by...)...)
	data["tls.key"] = append(data["tls.key"], other["tls.crt"]...)
	got, err := granted.Certificate(data)
	if err != nil || !bytes.Equal(got["tls.crt"], want) || bytes.Contains(got["tls.key"], []byte("CERTIFICATE")) {
		t.Errorf("got %s %s, %v", got["tls.crt"], got["tls.key"], err)
	}
}

// TestCertificateLoads checks that what serves all tenants gets no certificate that its library might not load.
func TestCertificateLoads(t *testing.T) {
	good, long, small := pair(t, nil), rsaKey(t, 2048), rsaKey(t, 1024)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	three, err := rsa.GenerateMultiPrimeKey(rand.Reader, 3, 2048) //nolint:staticcheck // that there are such is what is tested
	if err != nil {
		t.Fatal(err)
	}
	exponent := issued(t, &rsa.PublicKey{N: long.N, E: 3}, long)
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return block("PRIVATE KEY", der)
	}
	pkcs1 := func(key *rsa.PrivateKey) []byte { return block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)) }
	with := func(crt, key []byte) map[string][]byte { return map[string][]byte{"tls.crt": crt, "tls.key": key} }
	signed := func(by x509.SignatureAlgorithm) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.SignatureAlgorithm = by }
	}
	p224, p521 := ecKey(t, elliptic.P224()), ecKey(t, elliptic.P521())
	chained := func(more []byte) map[string][]byte {
		return with(append(bytes.Clone(good["tls.crt"]), more...), good["tls.key"])
	}
	for name, tc := range map[string]struct {
		data map[string][]byte
		want string
	}{
		"RSA":                              {data: with(certificate(t, long, nil), pkcs1(long))},
		"RSA, signed by PSS":               {data: with(certificate(t, long, signed(x509.SHA256WithRSAPSS)), pkcs1(long))},
		"a key under another name":         {data: with(certificate(t, long, nil), block("EC PRIVATE KEY", x509.MarshalPKCS1PrivateKey(long)))},
		"P-521":                            {data: with(certificate(t, p521, nil), pkcs8(p521))},
		"another certificate's key":        {with(good["tls.crt"], pair(t, nil)["tls.key"]), "no private key of the certificate"},
		"another kind of key":              {with(good["tls.crt"], pkcs1(long)), "no private key of the certificate"},
		"another exponent":                 {with(exponent, pkcs1(long)), "no private key of the certificate"},
		"garbage":                          {with(good["tls.crt"], block("PRIVATE KEY", []byte("none"))), "no private key of the certificate"},
		"a passphrase":                     {with(good["tls.crt"], block("ENCRYPTED PRIVATE KEY", []byte("none"))), "needs a passphrase"},
		"a small key":                      {with(certificate(t, small, nil), pkcs1(small)), "RSA of at least 2048 bits"},
		"a small curve":                    {with(certificate(t, p224, nil), pkcs8(p224)), "P-256, P-384 or P-521"},
		"a curve of Edwards":               {with(certificate(t, edwards, nil), pkcs8(edwards)), "P-256, P-384 or P-521"},
		"three primes":                     {with(certificate(t, three, nil), pkcs1(three)), "more than two primes"},
		"SHA-1":                            {with(certificate(t, long, signed(x509.SHA1WithRSA)), pkcs1(long)), "signed by SHA1-RSA"},
		"one with a small key vouches":     {chained(issued(t, small.Public(), long)), "RSA of at least 2048 bits"},
		"one with a long exponent vouches": {chained(issued(t, &rsa.PublicKey{N: long.N, E: 1<<31 - 1}, long)), "public exponent"},
		"one by a curve of Edwards":        {chained(issued(t, long.Public(), edwards)), "signed by Ed25519"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := granted.Certificate(tc.data)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil || !bytes.HasPrefix(got["tls.key"], []byte("-----BEGIN PRIVATE KEY-----")) {
				t.Fatalf("got %s, %v", got["tls.key"], err)
			}
			if _, err := tls.X509KeyPair(got["tls.crt"], got["tls.key"]); err != nil {
				t.Error(err)
			}
		})
	}
	// Old roots are signed by SHA-1. Nobody needs them in a chain.
	root := certificate(t, long, func(c *x509.Certificate) {
		c.SignatureAlgorithm, c.Subject = x509.SHA1WithRSA, pkix.Name{CommonName: "Root"}
	})
	if got, err := granted.Certificate(chained(root)); err != nil || !bytes.Equal(got["tls.crt"], good["tls.crt"]) {
		t.Errorf("with a root: %s, %v", got["tls.crt"], err)
	}
}
