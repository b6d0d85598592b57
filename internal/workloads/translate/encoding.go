package translate

import (
	"bytes"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
)

// encodedCertificate is a certificate of version 3 as RFC 5280, section 4.1, has it, without unique identifiers, which nobody writes. What
// is raw here, x509.ParseCertificate reads to its end.
type encodedCertificate struct {
	Signed struct {
		Version   int `asn1:"explicit,tag:0"`
		Serial    *big.Int
		Algorithm encodedAlgorithm
		Issuer    []attributeSET
		Validity  struct{ NotBefore, NotAfter asn1.RawValue }
		Subject   []attributeSET
		Key       struct {
			Algorithm encodedAlgorithm
			Key       asn1.BitString
		}
		Extensions []encodedExtension `asn1:"optional,explicit,tag:3"`
	}
	Algorithm encodedAlgorithm
	Signature asn1.BitString
}

type encodedAlgorithm struct {
	Algorithm  asn1.ObjectIdentifier
	Parameters asn1.RawValue `asn1:"optional"`
}

// attributeSET has a name that says to encoding/asn1 what it is.
type attributeSET []struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type encodedExtension struct {
	ID       asn1.ObjectIdentifier
	Critical bool `asn1:"optional"`
	Value    []byte
}

// version3 is how certificates say that they have extensions.
const version3 = 2

var (
	// oidAlternativeNames is the extension with the names that a certificate is for (RFC 5280, section 4.2.1.6), and alternativeNames what
	// each of them begins with: other names, addresses of mail, host names, X.400's, directories', EDI's, URIs, IP addresses, registered ones.
	oidAlternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}
	alternativeNames    = []byte{0xa0, 0x81, 0x82, 0xa3, 0xa4, 0xa5, 0x86, 0x87, 0x88}
	// parametersOfSignatures is what parameters of a signature begin with: none for ECDSA, NULL for RSA, a sequence for PSS.
	parametersOfSignatures = []byte{asn1.TagNull, 0x30}

	errEncoding = errors.New("its tls.crt has a certificate that is not of version 3 and encoded as RFC 5280 has it, which programs read in several ways; have it made anew")
)

// checkEncoding returns an error if other libraries than Go's may read something else in a certificate, or not load it: x509.ParseCertificate
// passes over what it does not know. So there must be nothing but what is written when all that is known is written again.
func checkEncoding(der []byte) error {
	var c encodedCertificate
	if rest, err := asn1.Unmarshal(der, &c); err != nil || len(rest) > 0 || c.Signed.Version != version3 {
		return errEncoding
	}
	if again, err := asn1.Marshal(c); err != nil || !bytes.Equal(again, der) {
		return errEncoding
	}
	for _, signature := range []encodedAlgorithm{c.Signed.Algorithm, c.Algorithm} {
		if p := signature.Parameters.FullBytes; len(p) > 0 && !slices.Contains(parametersOfSignatures, p[0]) {
			return errEncoding
		}
	}
	for _, e := range c.Signed.Extensions {
		if e.ID.Equal(oidAlternativeNames) && !knowsAll(e.Value) {
			return errEncoding
		}
	}
	return nil
}

// knowsAll reports whether each of a certificate's alternative names begins as one does.
func knowsAll(encoded []byte) bool {
	var names []asn1.RawValue
	rest, err := asn1.Unmarshal(encoded, &names)
	return err == nil && len(rest) == 0 &&
		!slices.ContainsFunc(names, func(n asn1.RawValue) bool { return !slices.Contains(alternativeNames, n.FullBytes[0]) })
}
