package certificate

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"testing"
)

// TestCheckChain checks which certificates of clients are verified.
func TestCheckChain(t *testing.T) {
	of := func(keys ...any) *tls.ConnectionState {
		sent := &tls.ConnectionState{}
		for _, key := range keys {
			sent.PeerCertificates = append(sent.PeerCertificates, &x509.Certificate{PublicKey: key})
		}
		return sent
	}
	long := new(big.Int).Lsh(big.NewInt(1), 8192)
	usual := &rsa.PublicKey{N: new(big.Int).Rsh(long, 1), E: 65537}
	short := &ecdsa.PublicKey{}
	for name, tc := range map[string]struct {
		sent    *tls.ConnectionState
		refused bool
	}{
		"no TLS":              {nil, false},
		"no certificate":      {of(), false},
		"usual":               {of(short, usual), false},
		"as many as may be":   {of(short, short, short, short, short, short, short, short), false},
		"more":                {of(short, short, short, short, short, short, short, short, short), true},
		"a long key":          {of(short, &rsa.PublicKey{N: long, E: 65537}), true},
		"a large exponent":    {of(short, &rsa.PublicKey{N: usual.N, E: 1<<31 - 1}), true},
		"its own key is long": {of(&rsa.PublicKey{N: long, E: 65537}), true},
	} {
		if err := CheckChain(tc.sent); (err != nil) != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
