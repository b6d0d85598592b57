package certificate

import (
	"crypto/tls"
	"fmt"

	"github.com/tenantry/tenantry/internal/bounds"
)

// maxChain is the most certificates that a client may send: its own and some intermediate ones.
const maxChain = 8

// CheckChain returns an error if it is too much work to verify what a client has sent. That is done for each
// request, and again for front proxies, before it is known who asks and before there is a seat, and
// anybody can make intermediate certificates with long keys.
func CheckChain(sent *tls.ConnectionState) error {
	if sent == nil {
		return nil
	}
	if n := len(sent.PeerCertificates); n > maxChain {
		return fmt.Errorf("the client has sent %d certificates: at most %d are verified, its own and intermediate ones", n, maxChain)
	}
	for _, certificate := range sent.PeerCertificates {
		if err := bounds.PublicKey(certificate.PublicKey); err != nil {
			return fmt.Errorf("the client has sent a certificate of %q: %w", certificate.Subject, err)
		}
	}
	return nil
}
