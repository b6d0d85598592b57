package bounds

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"
)

// authority returns a certificate, as PEM, of a key that nobody has.
func authority(t *testing.T, subject string, bits, exponent int) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var public any = &signer.PublicKey
	if bits > 0 {
		modulus := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
		public = &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: exponent}
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject}, IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour)}
	parent := &x509.Certificate{Subject: pkix.Name{CommonName: subject}}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestAuthorities(t *testing.T) {
	of := func(count int, subject func(int) string) (bundle []byte) {
		for i := range count {
			bundle = append(bundle, authority(t, subject(i), 0, 0)...)
		}
		return bundle
	}
	same := func(int) string { return "ca" }
	for name, tc := range map[string]struct {
		bundle []byte
		want   string // in the error, none if it is empty
	}{
		"nothing":             {},
		"nonsense":            {bundle: []byte("x")}, // which upstream refuses
		"no certificate":      {bundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})},
		"ECDSA":               {bundle: authority(t, "ca", 0, 0)},
		"the longest key":     {bundle: authority(t, "ca", 8192, 65537)},
		"a longer key":        {bundle: authority(t, "ca", 8193, 3), want: "certificate 1: its RSA key has 8193 bits; make one of at most 8192"},
		"a large exponent":    {bundle: authority(t, "ca", 2048, math.MaxInt32), want: "the public exponent of its RSA key is 2147483647"},
		"a long key behind":   {bundle: append([]byte("text\n"), append(authority(t, "a", 0, 0), authority(t, "b", 16384, 3)...)...), want: "certificate 2: its RSA key has 16384 bits"},
		"of one subject":      {bundle: of(maxNamesakes, same)},
		"more of one subject": {bundle: of(maxNamesakes+1, same), want: "certificate 9: more than 8 have its subject"},
		"many":                {bundle: of(maxAuthorities, strconv.Itoa)},
		"more":                {bundle: of(maxAuthorities+1, strconv.Itoa), want: "it has more than 64 certificates"},
		"long":                {bundle: bytes.Repeat([]byte("\n"), MaxAuthorityBytes)},
		"longer":              {bundle: bytes.Repeat([]byte("\n"), MaxAuthorityBytes+1), want: "it has 262145 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			switch err := Authorities(tc.bundle); {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
