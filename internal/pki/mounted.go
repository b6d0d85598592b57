package pki

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Load returns the PKI in a directory that somebody else keeps, such as one of mounted
// Secrets, and writes nothing there. It has the names of the files that Ensure makes:
//
//   - server-ca.crt, server.crt, server.key: by what clients know the server;
//   - client-ca.crt, client-ca.key: the authority of tenants' users, by which requests for
//     certificates are signed;
//   - system-ca.crt: the authority of system users, whose key is elsewhere;
//   - front-proxy-client.crt, front-proxy-client.key, service-account.key;
//   - service-account.pub, if there is one: further keys by which tokens of service accounts are
//     verified, see ServiceAccountKeys.
//
// Certificates that have expired are no error: who keeps them replaces them.
func Load(dir string) (*PKI, error) {
	p := &PKI{dir: dir}
	var err error
	if p.ClientCA, err = loadAuthority(dir, "client-ca"); err != nil {
		return nil, explainUnmounted(dir, err)
	}
	for name, authority := range map[string]**Authority{"server-ca": &p.ServerCA, "system-ca": &p.SystemCA} {
		file := p.path(name + ".crt")
		all, err := loadCertificates(file)
		if err != nil {
			return nil, explainUnmounted(dir, err)
		}
		*authority = &Authority{File: file, cert: all[0], others: all[1:]}
	}
	if _, err := loadKey(p.ServiceAccountKey()); err != nil {
		return nil, explainUnmounted(dir, err)
	}
	for _, name := range []string{"server", "front-proxy-client"} {
		if err := p.checkPair(name); err != nil {
			return nil, explainUnmounted(dir, err)
		}
	}
	return p, nil
}

// checkPair reports whether the certificate and the key of a name belong together.
func (p *PKI) checkPair(name string) error {
	all, err := loadCertificates(p.path(name + ".crt"))
	if err != nil {
		return err
	}
	key, err := loadKey(p.path(name + ".key"))
	if err != nil {
		return err
	}
	if !sameKey(all[0], key) {
		return fmt.Errorf("%s.crt and %[1]s.key do not belong together: restore the pair", p.path(name))
	}
	return nil
}

func explainUnmounted(dir string, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("a file of keys is missing in %s, where nothing is made: is --pki-dir right? (%w)", dir, err)
	}
	return fmt.Errorf("--pki-dir %s: %w", dir, err)
}
