package pki

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// renewBefore is what a leaf must have left at least to be used again.
	renewBefore = leafLifetime / 3
)

// servingHosts are the names every serving certificate carries.
var servingHosts = []string{
	"localhost", "127.0.0.1", "::1",
	"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
}

// PKI is the content of one directory.
type PKI struct {
	dir        string
	hosts      []string
	ServerCA   *Authority
	ClientCA   *Authority
	FrontProxy *Authority
	// SystemCA is the authority of system users, without its key, where it is another one
	// than ClientCA: in a directory that Load has read.
	SystemCA *Authority
}

// Ensure returns the PKI in dir and makes what is missing of it: on first start
// all of it, later a serving or front-proxy certificate that is about to expire
// or does not name the given hosts. Authorities are never replaced, because
// every certificate out there depends on them: a broken or expired one is an
// error.
func Ensure(dir string, hosts ...string) (*PKI, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory for keys: %w", err)
	}
	p := &PKI{dir: dir, hosts: hosts}
	if err := p.checkMissing(); err != nil {
		return nil, err
	}
	if _, err := ensureKey(p.ServiceAccountKey()); err != nil {
		return nil, err
	}
	for _, ca := range []struct {
		name, commonName string
		authority        **Authority
	}{
		{"server-ca", "tenantry server CA", &p.ServerCA},
		{"client-ca", "tenantry client CA", &p.ClientCA},
		{"front-proxy-ca", "tenantry front-proxy CA", &p.FrontProxy},
	} {
		var err error
		if *ca.authority, err = ensureAuthority(dir, ca.name, ca.commonName); err != nil {
			return nil, err
		}
	}
	return p, p.Renew()
}

// made are the keys that Ensure makes at the first start, in this order, so that of those that a crash leaves none is
// missing before another one. The certificate of an authority is made anew of its key.
var made = []string{"service-account.key", "server-ca.key", "client-ca.key", "front-proxy-ca.key"}

// checkMissing refuses to make a key beside others that are there: it was lost, and all that it has signed would be
// refused.
func (p *PKI) checkMissing() error {
	missing := ""
	for _, name := range made {
		switch _, err := os.Stat(p.path(name)); {
		case errors.Is(err, os.ErrNotExist):
			missing = cmp.Or(missing, name)
		case err != nil:
			return fmt.Errorf("reading the keys: %w", err)
		case missing == made[0]:
			return fmt.Errorf("%s is missing, and %s is there: with another key, every token of a service account would be refused. Restore it from a backup; "+
				"if there is none, make one, and all tokens end: openssl ecparam -name prime256v1 -genkey -noout -out %s", p.path(missing), name, p.path(missing))
		case missing != "":
			return fmt.Errorf("%s is missing, and %s is there: with another authority, every certificate of this one would be refused. Restore it and its certificate from a backup; "+
				"if there is none, move %s away, and all keys are made anew", p.path(missing), name, p.dir)
		}
	}
	return nil
}

// Renew replaces the serving and the front-proxy certificate if they are about to expire,
// as Ensure does. A server that runs reads them again.
func (p *PKI) Renew() error {
	hosts := p.hosts
	if name, err := os.Hostname(); err == nil {
		hosts = append(slices.Clone(hosts), name)
	}
	if err := p.ServerCA.ensureLeaf(p.path("server"), ServingTemplate(hosts...)); err != nil {
		return err
	}
	return p.FrontProxy.ensureLeaf(p.path("front-proxy-client"), FrontProxyTemplate())
}

// FrontProxyTemplate describes the certificate with which the server identifies itself to
// aggregated API servers.
func FrontProxyTemplate() *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "front-proxy-client"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

// Open returns what is needed to sign client certificates from a directory that
// Ensure has made, and makes nothing.
func Open(dir string) (*PKI, error) {
	p := &PKI{dir: dir}
	var err error
	if p.ClientCA, err = loadAuthority(dir, "client-ca"); err != nil {
		return nil, explainMissing(dir, err)
	}
	if p.ServerCA, err = loadAuthority(dir, "server-ca"); err != nil {
		return nil, explainMissing(dir, err)
	}
	return p, nil
}

func explainMissing(dir string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no keys in %s: `tenantry up` makes them on its first start; is --dir right? (%w)", dir, err)
	}
	return err
}

func (p *PKI) path(name string) string { return filepath.Join(p.dir, name) }

// ServiceAccountKey is the file of the key that signs service account tokens.
func (p *PKI) ServiceAccountKey() string { return p.path("service-account.key") }

// ServiceAccountKeys are the files of the keys that verify service account tokens: that which
// signs, and service-account.pub, if it is there, with public keys that have signed before or will.
func (p *PKI) ServiceAccountKeys() []string {
	files := []string{p.ServiceAccountKey()}
	if public := p.path("service-account.pub"); isFile(public) {
		files = append(files, public)
	}
	return files
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Serving returns the files of the server's own certificate.
func (p *PKI) Serving() (certFile, keyFile string) { return p.path("server.crt"), p.path("server.key") }

// FrontProxyClient returns the files of the certificate with which the server
// identifies itself to aggregated API servers.
func (p *PKI) FrontProxyClient() (certFile, keyFile string) {
	return p.path("front-proxy-client.crt"), p.path("front-proxy-client.key")
}

// ServingTemplate describes the serving certificate for the usual hosts and the given ones.
func ServingTemplate(hosts ...string) *x509.Certificate {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "tenantry"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	all := slices.Concat(servingHosts, hosts)
	slices.Sort(all)
	for _, host := range slices.Compact(all) {
		switch ip := net.ParseIP(host); {
		case host == "" || ip.IsUnspecified():
		case ip != nil:
			template.IPAddresses = append(template.IPAddresses, ip)
		default:
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}
