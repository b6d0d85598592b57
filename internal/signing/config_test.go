package signing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/pki"
)

func TestValidateFiles(t *testing.T) {
	keys, err := pki.Ensure(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	others, err := pki.Ensure(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca, key := keys.ClientCA.File, keys.ClientCA.KeyFile
	leaf, leafKey := keys.Serving()
	for name, tc := range map[string]struct {
		cert, key string
		trusted   []string
		want      []string // parts of the only error; none if there is none
	}{
		"nothing is signed":          {},
		"trusted":                    {cert: ca, key: key, trusted: []string{"", ca}},
		"trusted by the second":      {cert: ca, key: key, trusted: []string{others.ClientCA.File, ca}},
		"no key":                     {cert: ca, want: []string{"need each other"}},
		"no certificate":             {key: key, want: []string{"need each other"}},
		"a missing file":             {cert: ca + "x", key: key, trusted: []string{ca}, want: []string{"--cluster-signing-cert-file " + ca + "x", "no such file"}},
		"a missing key":              {cert: ca, key: key + "x", trusted: []string{ca}, want: []string{"--cluster-signing-key-file " + key + "x", "no such file"}},
		"no PEM":                     {cert: junk, key: key, trusted: []string{ca}, want: []string{"--cluster-signing-cert-file " + junk}},
		"another's key":              {cert: ca, key: others.ClientCA.KeyFile, trusted: []string{ca}, want: []string{"--cluster-signing-key-file " + others.ClientCA.KeyFile, "private key does not match"}},
		"no authority":               {cert: leaf, key: leafKey, trusted: []string{leaf}, want: []string{"--cluster-signing-cert-file " + leaf, "not the certificate and the key of an authority"}},
		"trusted by nobody":          {cert: ca, key: key, want: []string{ca, "--client-ca-file or --system-client-ca-file"}},
		"others are trusted":         {cert: ca, key: key, trusted: []string{others.ClientCA.File}, want: []string{ca, "--client-ca-file or --system-client-ca-file"}},
		"a bundle that is not there": {cert: ca, key: key, trusted: []string{"/none"}, want: []string{"/none"}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := Config{CertFile: tc.cert, KeyFile: tc.key, Duration: time.Hour}.Validate(tc.trusted...)
			if len(tc.want) == 0 {
				if len(errs) > 0 {
					t.Error(errs)
				}
				return
			}
			if len(errs) != 1 {
				t.Fatalf("got %v", errs)
			}
			for _, part := range tc.want {
				if !strings.Contains(errs[0].Error(), part) {
					t.Errorf("%q does not contain %q", errs[0], part)
				}
			}
		})
	}
}
