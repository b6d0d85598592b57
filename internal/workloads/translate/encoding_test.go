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

// TestCertificateEncodings checks that no certificate is on a host that Go takes, and of which other libraries read other names, or
// which they do not load.
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
		"an address of mail":               {change: names([]byte{0x81, 1, 'a'}), good: true},
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
			if (err == nil) != tc.good {
				t.Errorf("got %v", err)
			}
		})
	}
}

// algorithm returns ECDSA with SHA-256, with parameters.
func algorithm(t *testing.T, parameters ...[]byte) []byte {
	t.Helper()
	return sequence(t, append([][]byte{{asn1.TagOID, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2}}, parameters...)...)
}
