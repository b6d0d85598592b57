package translate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"slices"
	"testing"
)

// element returns an element of DER with others in it.
func element(t *testing.T, class, tag int, in ...[]byte) []byte {
	t.Helper()
	written, err := asn1.Marshal(asn1.RawValue{Class: class, Tag: tag, IsCompound: true, Bytes: slices.Concat(in...)})
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func sequence(t *testing.T, in ...[]byte) []byte {
	t.Helper()
	return element(t, asn1.ClassUniversal, asn1.TagSequence, in...)
}

// elementsIn returns the elements in one of DER.
func elementsIn(t *testing.T, of []byte) [][]byte {
	t.Helper()
	var outer asn1.RawValue
	if _, err := asn1.Unmarshal(of, &outer); err != nil {
		t.Fatal(err)
	}
	var in [][]byte
	for rest := outer.Bytes; len(rest) > 0; {
		var next asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &next); err != nil {
			t.Fatal(err)
		}
		in = append(in, next.FullBytes)
	}
	return in
}

// What is signed of a certificate, in order.
const (
	ofVersion = iota
	_
	ofAlgorithm
	_
	ofValidity
	_
	ofKey
	ofExtensions
)

// TestCertificateEncodings checks that no certificate is on a host that Go takes, and of which other libraries read
// other names, or which they do not load.
func TestCertificateEncodings(t *testing.T) {
	null := []byte{asn1.TagNull, 0}
	grown := func(i int) func([][]byte) [][]byte {
		return func(signed [][]byte) [][]byte {
			signed[i] = sequence(t, append(elementsIn(t, signed[i]), null)...)
			return signed
		}
	}
	// extensions has each extension, of its elements, as another one.
	extensions := func(change func([][]byte) [][]byte) func([][]byte) [][]byte {
		return func(signed [][]byte) [][]byte {
			all := elementsIn(t, elementsIn(t, signed[ofExtensions])[0])
			for i := range all {
				all[i] = sequence(t, change(elementsIn(t, all[i]))...)
			}
			signed[ofExtensions] = element(t, asn1.ClassContextSpecific, 3, sequence(t, all...))
			return signed
		}
	}
	names := func(in ...[]byte) func([][]byte) [][]byte {
		return extensions(func(parts [][]byte) [][]byte {
			value, err := asn1.Marshal(sequence(t, append([][]byte{append([]byte{0x82, 21}, "shop.acme.example.com"...)}, in...)...))
			if err != nil {
				t.Fatal(err)
			}
			return [][]byte{parts[0], value}
		})
	}
	other := append([]byte{asn1.TagIA5String, 23}, "shop.globex.example.com"...)
	for name, tc := range map[string]struct {
		change func(signed [][]byte) [][]byte
		after  []byte
		good   bool
	}{
		"a good one":                       {good: true},
		"a good one, written again":        {change: names(), good: true},
		"no version":                       {change: func(signed [][]byte) [][]byte { signed[ofVersion] = nil; return signed }},
		"version 2":                        {change: func(signed [][]byte) [][]byte { signed[ofVersion] = []byte{0xa0, 3, 2, 1, 1}; return signed }},
		"a name in parts":                  {change: names(element(t, asn1.ClassContextSpecific, 2, other))},
		"an unknown kind of name":          {change: names([]byte{0x89, 1, 'a'})},
		"something behind the extensions":  {change: func(signed [][]byte) [][]byte { return append(signed, null) }},
		"something behind the times":       {change: grown(ofValidity)},
		"something behind the key":         {change: grown(ofKey)},
		"something behind an extension":    {change: extensions(func(parts [][]byte) [][]byte { return append(parts, null) })},
		"something behind the signature":   {after: null},
		"a unique identifier that is none": {change: func(signed [][]byte) [][]byte { return slices.Insert(signed, ofExtensions, []byte{0x81, 2, 9, 0}) }},
		"a parameter that is none": {change: func(signed [][]byte) [][]byte {
			signed[ofAlgorithm] = algorithm(t, []byte{asn1.TagBoolean, 0})
			return signed
		}},
		"a parameter that is NULL and more": {change: func(signed [][]byte) [][]byte {
			signed[ofAlgorithm] = algorithm(t, []byte{asn1.TagNull, 1, 0})
			return signed
		}},
		"a mask of PSS with something behind it": {change: func(signed [][]byte) [][]byte {
			sha256 := []byte{asn1.TagOID, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1}
			in := func(tag int, parts ...[]byte) []byte { return element(t, asn1.ClassContextSpecific, tag, parts...) }
			signed[ofAlgorithm] = sequence(t, []byte{asn1.TagOID, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10}, sequence(t, in(0, sequence(t, sha256, null)),
				in(1, sequence(t, []byte{asn1.TagOID, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 8}, sequence(t, sha256, null, null))), in(2, []byte{asn1.TagInteger, 1, 32})))
			return signed
		}},
		"a key of RSA with something behind it": {change: func(signed [][]byte) [][]byte {
			key := elementsIn(t, must(t)(x509.MarshalPKIXPublicKey(&rsaKey(t, 2048).PublicKey)))
			var bits asn1.BitString
			if _, err := asn1.Unmarshal(key[1], &bits); err != nil {
				t.Fatal(err)
			}
			long := sequence(t, append(elementsIn(t, bits.Bytes), []byte{asn1.TagInteger, 1, 9})...)
			signed[ofKey] = sequence(t, key[0], must(t)(asn1.Marshal(asn1.BitString{Bytes: long, BitLength: 8 * len(long)})))
			return signed
		}},
		"two parameters":                       {change: func(signed [][]byte) [][]byte { signed[ofAlgorithm] = algorithm(t, null, null); return signed }},
		"a parameter that makes no difference": {change: func(signed [][]byte) [][]byte { signed[ofAlgorithm] = algorithm(t, null); return signed }, good: true},
	} {
		t.Run(name, func(t *testing.T) {
			key := ecKey(t, elliptic.P256())
			written, _ := pem.Decode(certificate(t, key, func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "shop.acme.example.com"} }))
			signed := elementsIn(t, elementsIn(t, written.Bytes)[0])
			if tc.change != nil {
				signed = tc.change(signed)
			}
			tbs := sequence(t, signed...)
			digest := sha256.Sum256(tbs)
			signature, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
			if err != nil {
				t.Fatal(err)
			}
			bits, err := asn1.Marshal(asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)})
			if err != nil {
				t.Fatal(err)
			}
			one := sequence(t, tbs, signed[ofAlgorithm], bits, tc.after)
			if _, err := x509.ParseCertificate(one); err != nil {
				t.Fatalf("Go does not take it either: %v", err)
			}
			private, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			_, err = granted.Certificate(map[string][]byte{"tls.crt": block("CERTIFICATE", one), "tls.key": block("PRIVATE KEY", private)})
			if tc.good && err != nil || !tc.good && !errors.Is(err, errEncoding) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestCertificateExtensions checks that extensions are such as libraries read alike, or none of them reads.
func TestCertificateExtensions(t *testing.T) {
	directory := element(t, asn1.ClassContextSpecific, 4, must(t)(asn1.Marshal(pkix.Name{CommonName: "An authority"}.ToRDNSequence())))
	wrong := []byte{asn1.TagNull, 0}
	usual := func(c *x509.Certificate) {
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		c.BasicConstraintsValid, c.SubjectKeyId, c.AuthorityKeyId = true, []byte("s"), []byte("a")
		c.OCSPServer, c.IssuingCertificateURL, c.CRLDistributionPoints = []string{"http://o.example.com/ocsp"}, []string{"http://i.example.com/a.crt", "ldap:///CN=a?cACertificate?base"}, []string{"http://c", "ldap:///d"}
		c.PolicyIdentifiers = []asn1.ObjectIdentifier{{2, 23, 140, 1, 2, 1}}
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}, Value: []byte("of a log")}}
	}
	authority := func(c *x509.Certificate) {
		c.BasicConstraintsValid, c.IsCA, c.MaxPathLen, c.KeyUsage = true, true, 1, x509.KeyUsageCertSign
		c.PermittedDNSDomains, c.ExcludedEmailAddresses = []string{"acme.example.com"}, []string{"example.com"}
	}
	asking := func(at string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.OCSPServer = []string{at} }
	}
	with := func(value []byte, id ...int) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{{Id: id, Value: value}} }
	}
	for name, tc := range map[string]struct {
		of   func(*x509.Certificate)
		good bool
	}{
		"usual ones":                   {usual, true},
		"an authority's":               {authority, true},
		"an authority, by its name":    {with(sequence(t, element(t, asn1.ClassContextSpecific, 1, directory), []byte{0x82, 1, 5}), 2, 5, 29, 35), true},
		"a list at a directory":        {with(sequence(t, sequence(t, element(t, asn1.ClassContextSpecific, 0, element(t, asn1.ClassContextSpecific, 0, directory)))), 2, 5, 29, 31), true},
		"a directory that is none":     {with(sequence(t, element(t, asn1.ClassContextSpecific, 1, element(t, asn1.ClassContextSpecific, 4, wrong)), []byte{0x82, 1, 5}), 2, 5, 29, 35), false},
		"constraints with more":        {with(sequence(t, []byte{asn1.TagOctetString, 1, 0}), 2, 5, 29, 19), false},
		"a usage of nothing":           {with([]byte{asn1.TagBitString, 2, 7, 0}, 2, 5, 29, 15), false},
		"a name that is a directory's": {with(sequence(t, []byte{0x82, 21}, []byte("shop.acme.example.com"), directory), 2, 5, 29, 17), false},
		"a name that is another's":     {with(sequence(t, []byte{0x82, 21}, []byte("shop.acme.example.com"), []byte{0xa0, 2, 5, 0}), 2, 5, 29, 17), false},
		"Netscape's kind":              {with([]byte{asn1.TagBitString, 2, 6, 0x40}, 2, 16, 840, 1, 113730, 1, 1), true},
		"a law's":                      {with([]byte("q"), 1, 3, 6, 1, 5, 5, 7, 1, 3), true},
		"an issuer by https":           {asking("https://o.example.com"), true},
		"an issuer at an address":      {asking("http://169.254.169.254/latest"), false},
		"at one in another form":       {asking("http://0x7f.1/"), false},
		"at one of IPv6":               {asking("http://[::1]/"), false},
		"on the controller itself":     {asking("http://localhost/"), false},
		"in the host cluster":          {asking("http://secrets.globex.svc.cluster.local/"), false},
		"in a cloud's metadata":        {asking("http://metadata.google.internal/"), false},
		"at another port":              {asking("http://o.example.com:2019/stop"), false},
		"with a query":                 {asking("http://o.example.com/?stop=now"), false},
		"with credentials":             {asking("http://u:p@o.example.com/"), false},
		"in a directory of a host":     {asking("ldap://o.example.com/"), false},
		"by another protocol":          {asking("file:///etc/passwd"), false},
		"a usage too far":              {with([]byte{asn1.TagBitString, 4, 0, 0, 0, 1}, 2, 5, 29, 15), false},
		"a directory of no texts": {with(sequence(t, sequence(t, element(t, asn1.ClassContextSpecific, 0, element(t, asn1.ClassContextSpecific, 0,
			element(t, asn1.ClassContextSpecific, 4, sequence(t, element(t, asn1.ClassUniversal, asn1.TagSet, sequence(t, []byte{asn1.TagOID, 3, 85, 4, 3}, wrong)))))))), 2, 5, 29, 31), false},
		"a kind of Netscape's":  {with(wrong, 2, 16, 840, 1, 113730, 1, 1), false},
		"a proxy's":             {with(wrong, 1, 3, 6, 1, 5, 5, 7, 1, 14), false},
		"blocks of addresses":   {with(wrong, 1, 3, 6, 1, 5, 5, 7, 1, 7), false},
		"one that nobody knows": {with(wrong, 2, 5, 29, 99), false},
	} {
		t.Run(name, func(t *testing.T) {
			data := pair(t, tc.of)
			one, _ := pem.Decode(data["tls.crt"])
			if _, err := x509.ParseCertificate(one.Bytes); err != nil {
				t.Fatalf("Go does not take it either: %v", err)
			}
			if _, err := granted.Certificate(data); tc.good && err != nil || !tc.good && !errors.Is(err, errEncoding) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// must returns a function that fails a test for what is not written.
func must(t *testing.T) func([]byte, error) []byte {
	return func(written []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
}

// algorithm returns ECDSA with SHA-256, with parameters.
func algorithm(t *testing.T, parameters ...[]byte) []byte {
	t.Helper()
	return sequence(t, append([][]byte{{asn1.TagOID, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2}}, parameters...)...)
}
