package identities

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
)

const (
	// factorBits is the length of a longKey's prime factors.
	factorBits = 64
	exponent   = 65537
)

// longKey is an RSA key of many short prime factors: it is made in no time, and verified
// like any other of its length.
type longKey struct {
	rsa.PublicKey
	private *big.Int
}

func newLongKey(bits int) (*longKey, error) {
	modulus, order, one := big.NewInt(1), big.NewInt(1), big.NewInt(1)
	for modulus.BitLen() < bits {
		prime, err := rand.Prime(rand.Reader, factorBits)
		if err != nil {
			return nil, fmt.Errorf("making a factor: %w", err)
		}
		smaller := new(big.Int).Sub(prime, one)
		if new(big.Int).GCD(nil, nil, smaller, big.NewInt(exponent)).Cmp(one) != 0 {
			continue
		}
		modulus.Mul(modulus, prime)
		order.Mul(order, smaller)
	}
	private := new(big.Int).ModInverse(big.NewInt(exponent), order)
	return &longKey{rsa.PublicKey{N: modulus, E: exponent}, private}, nil
}

// Public implements crypto.Signer.
func (k *longKey) Public() crypto.PublicKey { return &k.PublicKey }

// digestInfo begins what is signed of a SHA-256 digest (RFC 8017, 9.2).
var digestInfo = []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}

// Sign implements crypto.Signer, by PKCS #1 v1.5 with SHA-256.
func (k *longKey) Sign(_ io.Reader, digest []byte, _ crypto.SignerOpts) ([]byte, error) {
	padded := make([]byte, k.Size())
	padded[1] = 1
	zero := len(padded) - len(digestInfo) - len(digest) - 1
	for i := 2; i < zero; i++ {
		padded[i] = 0xff
	}
	copy(padded[zero+1:], append(digestInfo[:len(digestInfo):len(digestInfo)], digest...))
	signed := new(big.Int).Exp(new(big.Int).SetBytes(padded), k.private, k.N)
	return signed.FillBytes(make([]byte, k.Size())), nil
}

// LongKeyRequest returns a certificate signing request, as PEM, that is properly signed
// with an RSA key of at least the given length.
func LongKeyRequest(user string, bits int) ([]byte, error) {
	key, err := newLongKey(bits)
	if err != nil {
		return nil, fmt.Errorf("making a key of %d bits: %w", bits, err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}, SignatureAlgorithm: x509.SHA256WithRSA}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("signing with a key of %d bits: %w", bits, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
