package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/process/workers"
	"github.com/tenantry/tenantry/internal/statedir"
	"github.com/tenantry/tenantry/internal/version"
)

// TestMistakes checks that what cannot work ends with one line that says why.
func TestMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy := t.TempDir()
	held, err := statedir.Acquire(busy)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Release)
	corrupt := t.TempDir()
	if err := os.MkdirAll(statedir.Path(corrupt).PKI(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(statedir.Path(corrupt).PKI(), "client-ca.crt"), []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	host, space := filepath.Join(t.TempDir(), "host.kubeconfig"), filepath.Join(t.TempDir(), "acme.kubeconfig")
	for file, server := range map[string]string{host: "https://localhost", space: "https://localhost/tenants/acme"} {
		if err := clientcmd.WriteToFile(api.Config{
			Clusters: map[string]*api.Cluster{"host": {Server: server}}, Contexts: map[string]*api.Context{"host": {Cluster: "host"}}, CurrentContext: "host",
		}, file); err != nil {
			t.Fatal(err)
		}
	}

	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown command":                {[]string{"frobnicate"}, `unknown command "frobnicate"`},
		"unknown flag":                   {[]string{"up", "--nope"}, "unknown flag: --nope"},
		"argument of up":                 {[]string{"up", "here"}, `unknown command "here"`},
		"taken port":                     {[]string{"up", "--secure-port", port}, "--secure-port: listen tcp 127.0.0.1:" + port},
		"port out of range":              {[]string{"up", "--secure-port", "99999"}, "--secure-port: listen tcp: address 99999: invalid port"},
		"address not an IP":              {[]string{"up", "--bind-address", "localhost"}, `"localhost" is not an IP address`},
		"address of another machine":     {[]string{"up", "--bind-address", "198.51.100.77"}, "--bind-address: 198.51.100.77 is no address of this machine"},
		"manager's file nowhere":         {[]string{"up", "--manager-config", file + "/x"}, "--manager-config: reading the manager's configuration: open " + file + "/x"},
		"directory in use":               {[]string{"up", "--secure-port", "0", "--dir", busy}, "is in use by another tenantry"},
		"directory is a file":            {[]string{"up", "--secure-port", "0", "--dir", file}, "--dir: creating directory " + file},
		"corrupt keys":                   {[]string{"up", "--secure-port", "0", "--dir", corrupt}, "client-ca.crt holds no certificate"},
		"no tenant":                      {[]string{"kubeconfig"}, "name one tenant, not 0"},
		"invalid tenant":                 {[]string{"kubeconfig", "A"}, `invalid tenant name "A"`},
		"reserved tenant":                {[]string{"kubeconfig", "all"}, `"all" is reserved`},
		"never started":                  {[]string{"kubeconfig", "a", "--dir", filepath.Join(t.TempDir(), "x")}, "is --dir right?"},
		"kubeconfig for a moment":        {[]string{"kubeconfig", "a", "--validity", "1s"}, "--validity is 1s"},
		"kubeconfig of two servers":      {[]string{"kubeconfig", "a", "--kubeconfig", "x", "--offline"}, "leave --dir, --offline and --server out"},
		"kubeconfig of two signers":      {[]string{"kubeconfig", "a", "--kubeconfig", "x", "--dir", ".tenantry"}, "leave --dir, --offline and --server out"},
		"kubeconfig of no directory":     {[]string{"kubeconfig", "a", "--dir", ""}, "--dir is empty"},
		"another tenant as a group":      {[]string{"kubeconfig", "acme", "--group", "tenant:globex"}, `--group: group "tenant:globex" names a tenant`},
		"administrators in a space":      {[]string{"kubeconfig", "acme", "--group", "devs", "--group", "system:masters"}, `--group: group "system:masters" begins with "system:"`},
		"a user without a name":          {[]string{"kubeconfig", "acme", "--user", ""}, "--user is empty"},
		"a user with blanks":             {[]string{"kubeconfig", "acme", "--user", " a"}, `--user is " a": nobody has a name with blanks around it`},
		"a user of two lines":            {[]string{"kubeconfig", "acme", "--user", "a\nb"}, `--user is "a\nb": nobody`},
		"a group of two lines":           {[]string{"kubeconfig", "acme", "--group", "a\nb"}, `--group: group "a\nb" has blanks around it or control characters`},
		"a group without a name":         {[]string{"kubeconfig", "acme", "--group", ""}, "--group: a group needs a name"},
		"a user of Keystone":             {[]string{"kubeconfig", "acme", "--user", "keystone:jane"}, "use --exec keystone"},
		"the server of a space":          {[]string{"kubeconfig", "acme", "--server", "https://x/tenants/acme"}, "without /tenants/"},
		"a system group of a tenant":     {[]string{"kubeconfig", "system", "--group", "tenant:globex"}, "names a tenant"},
		"groups of Kubernetes":           {[]string{"kubeconfig", "system", "--group", "system:monitoring", "--dir", filepath.Join(t.TempDir(), "x")}, "is --dir right?"},
		"kubeconfig of an unknown login": {[]string{"kubeconfig", "a", "--exec", "foo"}, `--exec is "foo", and must be keystone`},
		"login with a certificate":       {[]string{"kubeconfig", "a", "--exec", "keystone", "--user", "jane"}, "--exec makes no certificate"},
		"arguments of no login":          {[]string{"kubeconfig", "a", "--", "--os-cloud", "acme"}, "is for --exec, which is missing"},
		"login with an unknown flag":     {[]string{"kubeconfig", "a", "--exec", "keystone", "--", "--os-password", "x"}, `behind --, for "tenantry credential keystone": unknown flag: --os-password`},
		"login with an argument":         {[]string{"kubeconfig", "a", "--exec", "keystone", "--", "acme"}, `behind --, for "tenantry credential keystone": unknown command "acme"`},
		"unknown credential":             {[]string{"credential", "foo"}, `unknown command "foo"`},
		"keystone without time":          {[]string{"credential", "keystone", "--timeout", "0"}, "--timeout is 0s"},
		"no cache in a directory":        {[]string{"credential", "keystone", "--no-cache", "--cache-dir", "x"}, "leave --cache-dir out"},
		"file of no clouds":              {[]string{"credential", "keystone", "--os-client-config-file", file}, "has no clouds"},
		"no directory":                   {[]string{"up", "--secure-port", "0", "--dir", ""}, "--dir is empty"},
		"advertises all addresses":       {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--advertise-address", "0.0.0.0"}, "--advertise-address: pods cannot reach 0.0.0.0"},
		"advertises no address":          {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--advertise-address", "::"}, "--advertise-address: pods cannot reach ::"},
		"a burst without a rate":         {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--tenant-requests-burst", "5"}, "--tenant-requests-burst: 5 has no effect"},
		"an audit log of no policy":      {[]string{"up", "--audit-log-path", "-"}, "--audit-log-path has no effect without --audit-policy-file: add that"},
		"an audit policy for no log":     {[]string{"up", "--audit-policy-file", file}, "--audit-policy-file has no effect without --audit-log-path or --audit-webhook-config-file: add that"},
		"limits of no search":            {[]string{"up", "--search=false", "--search-timeout", "5s"}, "--search-timeout has no effect without --search"},
		"no time for searches":           {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--search", "--search-timeout", "0"}, "--search-timeout is 0s, and must be from 1s to 1m"},
		"an image for no host":           {[]string{"up", "--workloads-image", "x"}, "--workloads-image has no effect without --host-kubeconfig"},
		"a host of no file":              {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--host-kubeconfig", "nope"}, "reading --host-kubeconfig nope: "},
		"a syncer of no host":            {[]string{"up", "--syncer"}, "--syncer has no effect without --host-kubeconfig or --host-in-cluster"},
		"no syncer of no host":           {[]string{"up", "--syncer=false"}, "--syncer has no effect without --host-kubeconfig or --host-in-cluster"},
		"isolation of no syncer":         {[]string{"up", "--host-kubeconfig", host, "--syncer=false", "--network-isolation", "Enforced"}, "--network-isolation has no effect without --syncer: add that"},
		"two hosts":                      {[]string{"syncer", "--kubeconfig", host, "--host-kubeconfig", host, "--host-in-cluster", "--network-isolation", "Unenforced"}, "leave one of them out"},
		"isolation of no host":           {[]string{"up", "--network-isolation", "Enforced"}, "--network-isolation has no effect without --host-kubeconfig"},
		"users of no proxy":              {[]string{"up", "--requestheader-allow-system"}, "--requestheader-allow-system has no effect without --requestheader-client-ca-file"},
		"tenants of no Keystone":         {[]string{"up", "--keystone-allow-system"}, "--keystone-allow-system has no effect without --keystone-config"},
		"advertises another family":      {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--advertise-address", "fd00::2"}, "--advertise-address: fd00::2 is an IPv6 address"},
		"unknown system issuers":         {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--system-issuers", "foo"}, `--system-issuers: "foo" is neither`},
		"a server's for a moment":        {[]string{"kubeconfig", "a", "--kubeconfig", "x", "--validity", "9m"}, "--validity is 9m0s, and must be at least 10m0s"},
		"never looks":                    {[]string{"up", "--certificate-check-period", "0"}, "--certificate-check-period is 0s"},
		"looks back":                     {[]string{"up", "--certificate-check-period", "-1h"}, "--certificate-check-period is -1h0m0s"},
		"name without a name":            {[]string{"up", "--tls-san", ""}, `--tls-san: "" is neither a host name nor an IP address`},
		"name of two words":              {[]string{"up", "--tls-san", "example.com", "--tls-san", "a b"}, `--tls-san: "a b" is neither`},
		"name with a scheme":             {[]string{"up", "--tls-san", "https://example.com"}, "is neither a host name nor an IP address"},
		"name of all addresses":          {[]string{"up", "--tls-san", "::"}, `--tls-san: "::" stands for all addresses`},
		"quota of 91 TiB":                {[]string{"up", "--etcd-quota-backend-bytes", "99999999999999"}, "--etcd-quota-backend-bytes is 99999999999999, and must be at most 1099511627776"},
		"quota of a byte":                {[]string{"up", "--etcd-quota-backend-bytes", "1"}, "--etcd-quota-backend-bytes is 1, and must be at least 16777216"},
		"kubeconfig of a component":      {[]string{"kubeconfig", "a", "--offline", "--user", "system:x"}, `--user is "system:x": names that begin with "system:"`},
		"version as XML":                 {[]string{"version", "-o", "xml"}, "must be json or yaml"},
		"manager without kubeconfig":     {[]string{"manager"}, "--kubeconfig is missing"},
		"manager of a space":             {[]string{"manager", "--kubeconfig", space}, "--kubeconfig: there are no tenants at https://localhost/tenants/acme, which is not the system space"},
		"syncer of a space":              {[]string{"syncer", "--kubeconfig", space, "--host-kubeconfig", host, "--network-isolation", "Unenforced"}, "--kubeconfig: there are no tenants at https://localhost/tenants/acme"},
		"keys without a directory":       {[]string{"up", "--secure-port", "0", "--dir", t.TempDir(), "--pki-dir", filepath.Join(t.TempDir(), "x")}, "is --pki-dir right?"},
		"a name for mounted keys":        {[]string{"up", "--pki-dir", "x", "--tls-san", "example.com"}, "have the name in server.crt there"},
		"an authority for mounted keys":  {[]string{"up", "--pki-dir", "x", "--client-ca-file", file}, "add its authorities to client-ca.crt there"},
		"a server's keys nowhere":        {[]string{"server", "--pki-dir", filepath.Join(t.TempDir(), "x")}, "is --pki-dir right?"},
		"a server's keys twice":          {[]string{"server", "--pki-dir", "x", "--tls-cert-file", file}, "--tls-cert-file cannot be used with --pki-dir"},
		"a server's users twice":         {[]string{"server", "--pki-dir", "x", "--client-ca-file", file}, "--client-ca-file cannot be used with --pki-dir"},
		"operator without an image":      {[]string{"operator"}, "--image is missing"},
		"operator without a host":        {[]string{"operator", "--image", "x", "--kubeconfig", filepath.Join(t.TempDir(), "x")}, "reading --kubeconfig"},
		"operator of no namespace":       {[]string{"operator", "--image", "x", "--kubeconfig", host, "--namespace", "A"}, `--namespace: "A" is no name of a namespace`},
		"searches without a certificate": {[]string{"search", "--dir", t.TempDir()}, "--tls-cert-file is missing: name the certificate that servers verify by --search-ca-file, or a --cert-dir"},
		"server without etcd":            {[]string{"server", "--cert-dir", t.TempDir()}, "--etcd-servers must be specified"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := run(test.args...)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q does not contain %q", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has more than one line", err)
			}
		})
	}
}

func TestKubeconfigOfTenantUser(t *testing.T) {
	dir := t.TempDir()
	if _, err := pki.Ensure(statedir.Path(dir).PKI(), "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	out, err := run("kubeconfig", "acme", "--offline", "--dir", dir, "--server", "https://127.0.0.1:6443",
		"--user", "jane", "--group", "developers", "--group", "testers")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://127.0.0.1:6443/tenants/acme"; config.Host != want {
		t.Errorf("server is %q, want %q", config.Host, want)
	}
	block, _ := pem.Decode(config.CertData)
	if block == nil {
		t.Fatal("no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "jane" {
		t.Errorf("user is %q, want jane", cert.Subject.CommonName)
	}
	if diff := cmp.Diff([]string{"tenant:acme"}, cert.Subject.Organization); diff != "" {
		t.Errorf("organization (-want +got):\n%s", diff)
	}
	groups := slices.Sorted(slices.Values(cert.Subject.OrganizationalUnit))
	if diff := cmp.Diff([]string{"developers", "testers"}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestKubeconfigWithExec checks that a kubeconfig for Keystone's users has no secret.
func TestKubeconfigWithExec(t *testing.T) {
	dir := t.TempDir()
	if _, err := pki.Ensure(statedir.Path(dir).PKI(), "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	out, err := run("kubeconfig", "acme", "--exec", "keystone", "--offline", "--dir", dir, "--server", "https://127.0.0.1:6443",
		"--", "--os-cloud", "cloud", "--os-project-name=web")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if want := "https://127.0.0.1:6443/tenants/acme"; config.Host != want || len(config.CAData) == 0 {
		t.Errorf("server is %q with an authority of %d bytes, want %q", config.Host, len(config.CAData), want)
	}
	if config.CertData != nil || config.KeyData != nil {
		t.Error("there is a certificate")
	}
	want := &api.ExecConfig{
		Command:         "tenantry",
		Args:            []string{"credential", "keystone", "--os-cloud", "cloud", "--os-project-name=web"},
		APIVersion:      "client.authentication.k8s.io/v1",
		InstallHint:     config.ExecProvider.InstallHint,
		InteractiveMode: api.IfAvailableExecInteractiveMode,
	}
	if diff := cmp.Diff(want, config.ExecProvider, cmpopts.IgnoreUnexported(api.ExecConfig{}), cmpopts.EquateEmpty()); diff != "" || want.InstallHint == "" {
		t.Errorf("exec with hint %q (-want +got):\n%s", want.InstallHint, diff)
	}
}

func TestVersion(t *testing.T) {
	for _, format := range []string{"", "json", "yaml"} {
		out, err := run("version", "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out, version.Version) {
			t.Errorf("%q: %q does not say %s", format, out, version.Version)
		}
	}
}

func run(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(context.Background())
	return out.String(), err
}

// TestQueuesTellWhenWorkersAreDone checks that the metrics of queues come from internal/process/workers, among all
// packages that are linked.
func TestQueuesTellWhenWorkersAreDone(t *testing.T) {
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "test"})
	defer queue.ShutDown()
	queue.Add("item")
	item, _ := queue.Get()
	done := false
	workers.OnDone(func(time.Duration, bool) { done = true })
	queue.Done(item)
	if !done {
		t.Error("the queue does not tell")
	}
}
