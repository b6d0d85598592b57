package server

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/tenantry/tenantry/internal/serverconfig"
)

// apiserverConfig is the head of one of upstream's configurations.
func apiserverConfig(kind string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: " + kind + "\n"
}

// kubeconfig is one whose authority is in a file beside it.
const kubeconfig = "clusters: [{name: a, cluster: {server: 'https://hook', certificate-authority: ca.crt}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"

// TestFilesOfFlags checks that what is wrong with a file names its flag and the file.
func TestFilesOfFlags(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := keyutil.MarshalPrivateKeyToPEM(private)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "a"}, private)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := cert.EncodeCertificates(authority)
	if err != nil {
		t.Fatal(err)
	}
	type files struct {
		right string
		// empty and wrong are what is said of a file without anything, and of one with nonsense; empty if nothing is,
		// here.
		empty, wrong string
	}
	const nothing = "it is empty"
	yaml := func(right string) files { return files{right, nothing, "did not find expected node content"} }
	hook := files{kubeconfig, "it has no cluster", "did not find expected node content"}
	certificates := files{string(bundle), nothing, "does not contain any valid RSA or ECDSA certificates"}
	key := files{string(pem), nothing, "does not contain a valid RSA or ECDSA private key"}
	for flag, tc := range map[string]files{
		"authentication-config": yaml(apiserverConfig("AuthenticationConfiguration")),
		"authorization-config":  yaml(apiserverConfig("AuthorizationConfiguration") + "authorizers: [{type: RBAC, name: rbac}]\n"),
		"authorization-policy-file": {`{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "u", "tenant": "acme"}}`,
			"", "line 1"},
		"authorization-webhook-config-file":        hook,
		"authentication-token-webhook-config-file": hook,
		"audit-webhook-config-file":                hook,
		"token-auth-file":                          {right: "t,u,1\n"},
		"basic-auth-file":                          {right: "t,u,1\n"},
		"keystone-config":                          {right: "x"},
		"admission-control-config-file":            yaml(apiserverConfig("AdmissionConfiguration")),
		"audit-policy-file":                        yaml("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n"),
		"encryption-provider-config":               yaml(apiserverConfig("EncryptionConfiguration")),
		"egress-selector-config-file":              yaml("apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"),
		"tracing-config-file":                      yaml(apiserverConfig("TracingConfiguration")),
		"allow-metric-labels-manifest":             yaml("m,l: a,b\n"),
		"client-ca-file":                           certificates,
		"system-client-ca-file":                    certificates,
		"requestheader-client-ca-file":             certificates,
		"oidc-ca-file":                             certificates,
		"root-ca-file":                             certificates,
		"search-ca-file":                           certificates,
		"etcd-cafile":                              certificates,
		"etcd-certfile":                            certificates,
		"etcd-keyfile":                             key,
		"tls-cert-file":                            certificates,
		"tls-private-key-file":                     key,
		"proxy-client-cert-file":                   certificates,
		"proxy-client-key-file":                    key,
		"kubelet-certificate-authority":            certificates,
		"kubelet-client-certificate":               certificates,
		"kubelet-client-key":                       key,
		"peer-ca-file":                             certificates,
		"cluster-signing-cert-file":                certificates,
		"cluster-signing-key-file":                 key,
		"service-account-signing-key-file":         key,
		"service-account-key-file":                 {string(pem), nothing, "does not contain any valid RSA or ECDSA public keys"},
	} {
		dir := t.TempDir()
		at := func(name, content string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		at("ca.crt", "")
		for path, want := range map[string]string{
			"/nope": "no such file", dir: "is a directory", at("right", tc.right): "", at("empty", ""): tc.empty, at("wrong", "a: [ {\n"): tc.wrong,
		} {
			switch err := checkFilesWith(t, flag, path); {
			case want == "" && err != nil:
				t.Errorf("--%s=%s: %v", flag, path, err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), "--"+flag+": "+path+": ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("--%s=%s: %v, want one line with %q", flag, path, err, want)
			}
		}
	}
}

// checkFilesWith checks the files of a server with a flag.
func checkFilesWith(t *testing.T, flag, value string) error {
	t.Helper()
	options, given := NewOptions(), false
	for _, set := range options.Flags().FlagSets {
		if set.Lookup(flag) != nil {
			if given = true; set.Set(flag, value) != nil {
				t.Fatalf("--%s cannot be %s", flag, value)
			}
		}
	}
	if !given {
		t.Fatalf("there is no --%s", flag)
	}
	return options.checkFiles()
}

// TestLogOfFlag checks the one file that need not be there.
func TestLogOfFlag(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		"-": "", filepath.Join(dir, "new", "log"): "", dir: "--audit-log-path: " + dir + ": is a directory", "/dev/null/x": "--audit-log-path: /dev/null/x: mkdir /dev/null: not a directory",
	} {
		if err := checkFilesWith(t, "audit-log-path", path); (err != nil) != (want != "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

// TestContentOfFiles checks that what upstream takes without a word is refused.
func TestContentOfFiles(t *testing.T) {
	plugins := apiserverConfig("AdmissionConfiguration") + "plugins:\n"
	for name, tc := range map[string]struct{ flag, content, want string }{
		"a plugin":              {"admission-control-config-file", plugins + "- {name: PodSecurity, path: beside}\n", ""},
		"a plugin that is off":  {"admission-control-config-file", plugins + "- {name: EventRateLimit, path: beside}\n", ""},
		"a misspelt plugin":     {"admission-control-config-file", plugins + "- {name: PodSecurty}\n", `plugins[0].name: "PodSecurty" is no plugin that takes a configuration: those are EventRateLimit, `},
		"a plugin without any":  {"admission-control-config-file", plugins + "- {name: LimitRanger}\n", `"LimitRanger" is no plugin that takes`},
		"a plugin twice":        {"admission-control-config-file", plugins + "- {name: PodSecurity}\n- {name: PodSecurity}\n", "plugins[1].name: PodSecurity is there twice"},
		"two configurations":    {"admission-control-config-file", plugins + "- {name: PodSecurity, path: beside, configuration: {}}\n", "path: it has no effect beside configuration"},
		"a plugin of no file":   {"admission-control-config-file", plugins + "- {name: PodSecurity, path: nope}\n", "plugins[0].path: of PodSecurity: open DIR/nope: no such file"},
		"an unknown field":      {"admission-control-config-file", plugins + "- {name: PodSecurity, config: {}}\n", `unknown field "plugins[0].config"`},
		"another kind":          {"admission-control-config-file", apiserverConfig("AuthenticationConfiguration"), "its kind is AuthenticationConfiguration, and must be AdmissionConfiguration"},
		"a misspelt audit rule": {"audit-policy-file", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None, verb: [get]}]\n", `unknown field "rules[0].verb"`},
		"a policy without rule": {"audit-policy-file", "apiVersion: audit.k8s.io/v1\nkind: Policy\n", "0 rules"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		if err := cmp.Or(os.WriteFile(path, []byte(tc.content), 0o600), os.WriteFile(filepath.Join(dir, "beside"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		err := checkFilesWith(t, tc.flag, path)
		if want := strings.ReplaceAll(tc.want, "DIR", dir); (err != nil) != (want != "") || err != nil && (!strings.HasPrefix(err.Error(), "--"+tc.flag+": "+path) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

// TestPluginsWithConfiguration checks that a configuration is for plugins that there are.
func TestPluginsWithConfiguration(t *testing.T) {
	registered := NewOptions().Kube.Admission.GenericAdmission.Plugins.Registered()
	for _, name := range serverconfig.AllPlugins() {
		if !slices.Contains(registered, name) {
			t.Errorf("there is no plugin %s", name)
		}
	}
}
