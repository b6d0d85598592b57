package v1alpha1

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Default fills in what c leaves open.
func (c *KeystoneConfiguration) Default() {
	c.Name = cmp.Or(c.Name, "default")
	c.Trusts = cmp.Or(c.Trusts, KeystoneTrustsRefuse)
	c.Passwords = cmp.Or(c.Passwords, KeystonePasswordsRefuse)
	c.CacheTTL = cmp.Or(c.CacheTTL, metav1.Duration{Duration: time.Minute})
	c.RequestTimeout = cmp.Or(c.RequestTimeout, metav1.Duration{Duration: min(10*time.Second, c.CacheTTL.Duration)})
	c.NegativeCacheTTL = cmp.Or(c.NegativeCacheTTL, metav1.Duration{Duration: min(10*time.Second, c.CacheTTL.Duration)})
}

// Validate reports the first thing that is wrong with c, whose defaults are filled in.
func (c *KeystoneConfiguration) Validate() error {
	if c.APIVersion != GroupVersion.String() || c.Kind != "KeystoneConfiguration" {
		return fmt.Errorf("apiVersion %q, kind %q: want %q, %q", c.APIVersion, c.Kind, GroupVersion, "KeystoneConfiguration")
	}
	if err := validateKeystoneURL(c.URL); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if msgs := validation.IsDNS1123Label(c.Name); len(msgs) > 0 {
		return fmt.Errorf("name: %q: %s", c.Name, strings.Join(msgs, "; "))
	}
	if c.CloudsFile == "" {
		return fmt.Errorf("cloudsFile: it is missing; name a clouds.yaml with the account that asks Keystone")
	}
	if c.Cloud == "" {
		return fmt.Errorf("cloud: it is missing; name an entry of %s", c.CloudsFile)
	}
	const shortest = time.Second // what is less was meant in another unit, and nothing would be remembered
	for _, d := range []struct {
		field   string
		value   time.Duration
		longest time.Duration
	}{
		{"cacheTTL", c.CacheTTL.Duration, time.Hour},
		{"requestTimeout", c.RequestTimeout.Duration, 30 * time.Second},
		{"negativeCacheTTL", c.NegativeCacheTTL.Duration, c.CacheTTL.Duration},
	} {
		if d.value < shortest || d.value > d.longest {
			return fmt.Errorf("%s: %s is not between %s and %s; leave it out for the default", d.field, d.value, shortest, d.longest)
		}
	}
	if c.CacheTTL.Duration < c.RequestTimeout.Duration {
		return fmt.Errorf("cacheTTL: %s is less than requestTimeout, %s: an answer that takes longer than cacheTTL cannot be used; raise cacheTTL or lower requestTimeout",
			c.CacheTTL.Duration, c.RequestTimeout.Duration)
	}
	if c.Passwords != KeystonePasswordsRefuse && c.Passwords != KeystonePasswordsAccept {
		return fmt.Errorf("passwords: %q is not Refuse or Accept", c.Passwords)
	}
	if c.Trusts != KeystoneTrustsRefuse && c.Trusts != KeystoneTrustsAccept {
		return fmt.Errorf("trusts: %q is not Refuse or Accept", c.Trusts)
	}
	return nil
}

var anotherVersion = regexp.MustCompile(`/v(2\.0|[0-24-9])/?$`)

var belowVersion = regexp.MustCompile(`/v3/.`)

// validateKeystoneURL refuses URLs by which tokens and the password of the account would be
// read by others.
func validateKeystoneURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("want one like https://keystone.example.com/v3")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("it must not have credentials, a query or a fragment; the account belongs in cloudsFile")
	}
	if anotherVersion.MatchString(u.Path) {
		return fmt.Errorf("%q is not that of version 3; let it end in /v3", text)
	}
	if belowVersion.MatchString(u.Path) {
		return fmt.Errorf("%q is below that of version 3; let it end in /v3", text)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%q sends passwords and tokens in the clear; use https, with certificateAuthorityFile if the authority is your own", text)
	}
	return nil
}

// LoadKeystoneConfiguration reads a configuration file, JSON or YAML, fills in the
// defaults and validates it. An unknown field is an error. Paths in the result are
// as the process sees them.
func LoadKeystoneConfiguration(path string) (*KeystoneConfiguration, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of Keystone: %w", err)
	}
	c := &KeystoneConfiguration{}
	if err := readStrict(content, c); err != nil {
		return nil, fmt.Errorf("reading the configuration of Keystone %q: %w", path, err)
	}
	c.Default()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("the configuration of Keystone %q: %w", path, err)
	}
	for _, file := range []*string{&c.CertificateAuthorityFile, &c.CloudsFile} {
		if *file != "" && !filepath.IsAbs(*file) {
			*file = filepath.Join(filepath.Dir(path), *file)
		}
	}
	return c, nil
}
