package certificates

import (
	"crypto/rsa"
	"fmt"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/certificates"
)

const (
	// maxRequest is the maximum length of spec.request, in bytes of PEM.
	maxRequest = 64 << 10
	// maxRSABits is the longest modulus of certificates that crypto/tls accepts.
	maxRSABits = 8192
	// maxRSAExponent is the largest exponent that crypto/rsa accepts.
	maxRSAExponent = math.MaxInt32
)

// checkRequest returns an error if it is too much work to verify a request's signature. It
// leaves invalid requests to upstream's validation.
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
		return nil // other keys have a few fixed lengths
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
