package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLoadKeystoneConfiguration(t *testing.T) {
	const header = "apiVersion: config.tenantry.io/v1alpha1\nkind: KeystoneConfiguration\n"
	const account = "cloudsFile: clouds.yaml\ncloud: c\n"
	const minimal = header + "url: https://k.example/v3\n" + account
	seconds := func(n time.Duration) metav1.Duration { return metav1.Duration{Duration: n * time.Second} }
	for name, tc := range map[string]struct {
		file   string
		change func(*KeystoneConfiguration)
		err    string
	}{
		"defaults": {file: minimal, change: func(*KeystoneConfiguration) {}},
		"short cache": {file: minimal + "cacheTTL: 5s\n", change: func(c *KeystoneConfiguration) {
			c.CacheTTL, c.NegativeCacheTTL, c.RequestTimeout = seconds(5), seconds(5), seconds(5)
		}},
		"cache below answers": {file: minimal + "cacheTTL: 5s\nrequestTimeout: 6s\n", err: "cacheTTL: 5s is less than requestTimeout, 6s"},
		"passwords":           {file: minimal + "passwords: Accept\n", change: func(c *KeystoneConfiguration) { c.Passwords = KeystonePasswordsAccept }},
		"unknown passwords":   {file: minimal + "passwords: Maybe\n", err: "passwords: \"Maybe\" is not Refuse or Accept"},
		"trusts":              {file: minimal + "trusts: Accept\n", change: func(c *KeystoneConfiguration) { c.Trusts = KeystoneTrustsAccept }},
		"name":                {file: minimal + "name: east\n", change: func(c *KeystoneConfiguration) { c.Name = "east" }},
		"loopback":            {file: header + "url: http://127.0.0.1:5000\n" + account, change: func(c *KeystoneConfiguration) { c.URL = "http://127.0.0.1:5000" }},
		"a path":              {file: header + "url: https://k.example/vault/identity\n" + account, change: func(c *KeystoneConfiguration) { c.URL = "https://k.example/vault/identity" }},
		"no TLS":              {file: header + "url: http://k.example/v3\n" + account, err: "url: \"http://k.example/v3\" sends passwords and tokens in the clear; use https"},
		"no URL":              {file: header + account, err: "url: want one like"},
		"password in URL":     {file: header + "url: https://u:p@k.example/v3\n" + account, err: "url: it must not have credentials"},
		"version 2":           {file: header + "url: https://k.example/v2.0\n" + account, err: "let it end in /v3"},
		"below version 3":     {file: header + "url: https://k.example/v3/auth/tokens\n" + account, err: "let it end in /v3"},
		"no clouds file":      {file: header + "url: https://k.example/v3\ncloud: c\n", err: "cloudsFile: it is missing"},
		"no cloud":            {file: header + "url: https://k.example/v3\ncloudsFile: f\n", err: "cloud: it is missing; name an entry of f"},
		"long timeout":        {file: minimal + "requestTimeout: 1m\n", err: "requestTimeout: 1m0s is not between 1s and 30s"},
		"long cache":          {file: minimal + "cacheTTL: 2h\n", err: "cacheTTL: 2h0m0s is not between"},
		"negative":            {file: minimal + "cacheTTL: -1s\n", err: "cacheTTL: -1s is not between"},
		"in nanoseconds":      {file: minimal + "cacheTTL: 1ns\n", err: "cacheTTL: 1ns is not between 1s and 1h0m0s"},
		"below a second":      {file: minimal + "cacheTTL: 999ms\n", err: "cacheTTL: 999ms is not between 1s and 1h0m0s"},
		"a second": {file: minimal + "cacheTTL: 1s\n", change: func(c *KeystoneConfiguration) {
			c.CacheTTL, c.NegativeCacheTTL, c.RequestTimeout = seconds(1), seconds(1), seconds(1)
		}},
		"short timeout":  {file: minimal + "requestTimeout: 10ms\n", err: "requestTimeout: 10ms is not between 1s and 30s"},
		"short denials":  {file: minimal + "negativeCacheTTL: 1ms\n", err: "negativeCacheTTL: 1ms is not between 1s and 1m0s"},
		"longer denials": {file: minimal + "negativeCacheTTL: 2m\n", err: "negativeCacheTTL: 2m0s is not between 1s and 1m0s"},
		"unknown trusts": {file: minimal + "trusts: Maybe\n", err: "trusts: \"Maybe\" is not Refuse or Accept"},
		"wrong name":     {file: minimal + "name: a b\n", err: "name: \"a b\""},
		"unknown field":  {file: minimal + "clouds: f\n", err: "unknown field"},
		"field twice":    {file: minimal + "cloud: d\n", err: "already set"},
		"another kind":   {file: "apiVersion: config.tenantry.io/v1alpha1\nkind: ManagerConfiguration\n", err: "want"},
		"not a duration": {file: minimal + "cacheTTL: soon\n", err: "invalid duration"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keystone.yaml")
			if err := os.WriteFile(path, []byte(tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadKeystoneConfiguration(path)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v, not %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := &KeystoneConfiguration{
				TypeMeta: got.TypeMeta, URL: "https://k.example/v3", Name: "default", CloudsFile: filepath.Join(filepath.Dir(path), "clouds.yaml"), Cloud: "c",
				RequestTimeout: seconds(10), CacheTTL: seconds(60), NegativeCacheTTL: seconds(10), Trusts: KeystoneTrustsRefuse, Passwords: KeystonePasswordsRefuse,
			}
			tc.change(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
