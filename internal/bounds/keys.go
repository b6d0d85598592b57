package bounds

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

const (
	// maxRSABits is the longest modulus of certificates that crypto/tls accepts. It does not look at those of authorities.
	maxRSABits = 8192
	// maxRSAExponent is the usual one. With it, a signature of the longest key takes 1.4 ms to verify, and with
	// the largest that crypto/rsa accepts ten times as long.
	maxRSAExponent = 65537
	// maxAuthorities is how many certificates a bundle has.
	maxAuthorities = 64
	// maxNamesakes is how many of them have one subject: all are tried for each certificate that names it as its issuer.
	maxNamesakes = 8
	// MaxAuthorityBytes is how long a bundle is, in bytes of PEM: 64 certificates with the longest keys, and comments.
	MaxAuthorityBytes = 256 << 10
)

// PublicKey returns an error if it is too much work to verify a signature of a key. The work grows with the
// square of an RSA key's length and does not end with the request for which it is done.
func PublicKey(public any) error {
	key, ok := public.(*rsa.PublicKey)
	if !ok {
		return nil // other keys have a few fixed lengths
	}
	if bits := key.N.BitLen(); bits > maxRSABits {
		return fmt.Errorf("its RSA key has %d bits; make one of at most %d, or an ECDSA key", bits, maxRSABits)
	}
	if key.E > maxRSAExponent {
		return fmt.Errorf("the public exponent of its RSA key is %d; make a key with the usual one, 65537", key.E)
	}
	return nil
}

// Authorities returns an error if it is too much work to verify a certificate by a bundle of authorities, in
// PEM. What crypto/x509 leaves out of a bundle is no error.
func Authorities(bundle []byte) error {
	if len(bundle) > MaxAuthorityBytes {
		return fmt.Errorf("it has %d bytes, and a space takes at most %d; leave out authorities that have issued nothing here", len(bundle), MaxAuthorityBytes)
	}
	namesakes := map[string]int{}
	count := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if count++; count > maxAuthorities {
			return fmt.Errorf("it has more than %d certificates; leave out authorities that have issued nothing here", maxAuthorities)
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue // as in crypto/x509
		}
		if err := PublicKey(authority.PublicKey); err != nil {
			return fmt.Errorf("certificate %d: %w", count, err)
		}
		if namesakes[string(authority.RawSubject)]++; namesakes[string(authority.RawSubject)] > maxNamesakes {
			return fmt.Errorf("certificate %d: more than %d have its subject; leave out those that are not used any more, or give them other subjects", count, maxNamesakes)
		}
	}
	return nil
}
