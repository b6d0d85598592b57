package certificates

import (
	"crypto/rsa"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/certificates"
)

const (
	// maxRequest is how many bytes spec.request may have, which is PEM.
	maxRequest = 64 << 10
	// maxRSABits is the longest modulus with which crypto/tls takes a certificate.
	maxRSABits = 8192
	// maxRSAExponent is the largest with which crypto/rsa verifies.
	maxRSAExponent = math.MaxInt32
)

// checkRequest says what makes it too much work to verify a request's signature. What is
// no request at all is left to upstream's validation.
func checkRequest(request []byte) field.ErrorList {
	at := field.NewPath("spec", "request")
	if len(request) > maxRequest {
		return field.ErrorList{field.TooLong(at, "", maxRequest)}
	}
	parsed, err := certificates.ParseCSR(request)
	if err != nil {
		return nil
	}
	key, ok := parsed.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil // the lengths of the others are those of few curves
	}
	if bits := key.N.BitLen(); bits > maxRSABits {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{},
			fmt.Sprintf("its RSA key has %d bits; make one of at most %d, or an ECDSA key", bits, maxRSABits))}
	}
	if key.E > maxRSAExponent {
		return field.ErrorList{field.Invalid(at, field.OmitValueType{},
			fmt.Sprintf("the public exponent of its RSA key is %d; make a key with the usual one, 65537", key.E))}
	}
	return nil
}
