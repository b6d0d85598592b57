package standalone

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/internal/etcd"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/server"
)

// TestValidate checks that what cannot work is refused by the name of its flag.
func TestValidate(t *testing.T) {
	mounted := func(o *Options) { o.PKIDir = "/pki" }
	host := filepath.Join(t.TempDir(), "host.kubeconfig")
	if err := os.WriteFile(host, []byte(`{"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		changes []func(*Options)
		// want is in the error, which is none if it is empty.
		want string
	}{
		"the defaults":             {},
		"the default of etcd":      {changes: []func(*Options){func(o *Options) { o.EtcdQuotaBackendBytes = 0 }}},
		"no quota":                 {changes: []func(*Options){func(o *Options) { o.EtcdQuotaBackendBytes = -1 }}},
		"the least quota":          {changes: []func(*Options){func(o *Options) { o.EtcdQuotaBackendBytes = etcd.MinQuotaBackendBytes }}},
		"too little quota":         {changes: []func(*Options){func(o *Options) { o.EtcdQuotaBackendBytes = etcd.MinQuotaBackendBytes - 1 }}, want: "--etcd-quota-backend-bytes"},
		"names":                    {changes: []func(*Options){func(o *Options) { o.TLSNames = []string{"a.example.com", "*.example.com", "UPPER", "192.0.2.1", "::1"} }}},
		"a name that is none":      {changes: []func(*Options){func(o *Options) { o.TLSNames = []string{"a.example.com", "a b"} }}, want: "--tls-san"},
		"a URL for a name":         {changes: []func(*Options){func(o *Options) { o.TLSNames = []string{"https://a.example.com"} }}, want: "--tls-san"},
		"a star within a name":     {changes: []func(*Options){func(o *Options) { o.TLSNames = []string{"a.*.example.com"} }}, want: "--tls-san"},
		"all addresses for a name": {changes: []func(*Options){func(o *Options) { o.TLSNames = []string{"0.0.0.0"} }}, want: "stands for all addresses"},
		"pods that run": {changes: []func(*Options){func(o *Options) {
			o.Server.Host.Kubeconfig, o.Workloads.NetworkIsolation = host, "Unenforced"
		}}},
		"pods that nothing keeps apart": {changes: []func(*Options){func(o *Options) { o.Server.Host.Kubeconfig = host }}, want: "--network-isolation=Unenforced"},
		"a host of no file":             {changes: []func(*Options){func(o *Options) { o.Server.Host.Kubeconfig = host + "x" }}, want: "reading --host-kubeconfig " + host + "x: "},
		"pods of another syncer":        {changes: []func(*Options){func(o *Options) { o.Server.Host.InCluster, o.Syncer = true, false }}},
		"mounted keys":                  {changes: []func(*Options){mounted}},
		"mounted keys and a name":       {changes: []func(*Options){mounted, func(o *Options) { o.TLSNames = []string{"a"} }}, want: "with --pki-dir, leave it out"},
		"mounted keys and a bundle": {changes: []func(*Options){mounted, func(o *Options) { o.Server.Authentication.Upstream.ClientCert.ClientCA = "/ca.crt" }},
			want: "--client-ca-file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			for _, change := range tc.changes {
				change(&o)
			}
			expectError(t, o.validate(), tc.want)
		})
	}
}

// expectError checks that an error says something, or that there is none.
func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func TestCheckAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, tc := range map[string]struct {
		bind       string
		port       int
		want, fail string
	}{
		"one":            {bind: "127.0.0.1", want: "127.0.0.1:0"},
		"all":            {bind: "0.0.0.0", want: "127.0.0.1:0"},
		"none":           {bind: "localhost", fail: "--bind-address"},
		"another's":      {bind: "198.51.100.77", fail: "--bind-address: 198.51.100.77 is no address of this machine"},
		"a port in use":  {bind: "127.0.0.1", port: taken.Addr().(*net.TCPAddr).Port, fail: "--secure-port"},
		"no port number": {bind: "127.0.0.1", port: 65536, fail: "--secure-port"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Options{BindAddress: tc.bind, Port: tc.port}.checkAddress()
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			expectError(t, err, tc.fail)
		})
	}
}

// TestPodsAPI checks where pods reach the server, and that its certificate has the address.
func TestPodsAPI(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"a loopback address":     {func(o *Options) { o.AdvertiseAddress = "192.0.2.1" }, ""},
		"the address of a route": {func(o *Options) { o.BindAddress, o.AdvertiseAddress = "0.0.0.0", "192.0.2.1" }, "192.0.2.1:6443"},
		"the address":            {func(o *Options) { o.BindAddress = "192.0.2.2" }, "192.0.2.2:6443"},
		"of IPv6":                {func(o *Options) { o.Workloads.APIAddress = "[2001:db8::1]:443" }, "[2001:db8::1]:443"},
		"no route":               {func(o *Options) { o.BindAddress, o.AdvertiseAddress = "0.0.0.0", "127.0.0.1" }, ""},
		"what is said":           {func(o *Options) { o.Workloads.APIAddress = "192.0.2.3:443" }, "192.0.2.3:443"},
		"no pods":                {func(o *Options) { o.Server.Host.Kubeconfig, o.BindAddress = "", "192.0.2.2" }, ""},
		"somebody's certificate": {func(o *Options) { o.BindAddress, o.PKIDir = "192.0.2.2", "/pki" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			o.Port, o.Server.Host.Kubeconfig = 6443, "/host"
			tc.change(&o)
			var err error
			if o.Workloads.APIAddress, err = o.podsAPI(); err != nil || o.Workloads.APIAddress != tc.want {
				t.Errorf("got %q, %v, want %q", o.Workloads.APIAddress, err, tc.want)
			}
			if host, _, err := net.SplitHostPort(tc.want); err == nil && !slices.Contains(o.certifiedHosts(), host) {
				t.Errorf("the certificate is for %v", o.certifiedHosts())
			}
		})
	}
}

// TestAdvertise checks which addresses pods are told, and that none is told that they cannot reach.
func TestAdvertise(t *testing.T) {
	for name, tc := range map[string]struct {
		address string
		// told is false if the Service kubernetes gets no endpoints.
		told bool
		fail string
	}{
		"one":           {address: "192.0.2.1", told: true},
		"of IPv6":       {address: "2001:db8::1", fail: "--advertise-address: 2001:db8::1 is an IPv6 address, and Services have those of 10.96.0.0/12"},
		"the machine's": {address: "127.0.0.1"},
		"the network's": {address: "169.254.1.1"},
		"all":           {address: "0.0.0.0", fail: "--advertise-address"},
		"many":          {address: "224.0.0.1", fail: "--advertise-address"},
		"none":          {address: "example.com", fail: "--advertise-address"},
	} {
		t.Run(name, func(t *testing.T) {
			kube := server.NewOptions().Kube
			before := kube.EndpointReconcilerType
			err := Options{AdvertiseAddress: tc.address}.advertise(kube)
			expectError(t, err, tc.fail)
			if err != nil {
				return
			}
			if !kube.GenericServerRunOptions.AdvertiseAddress.Equal(net.ParseIP(tc.address)) {
				t.Errorf("advertised is %v", kube.GenericServerRunOptions.AdvertiseAddress)
			}
			if want := map[bool]string{true: before, false: "none"}[tc.told]; kube.EndpointReconcilerType != want {
				t.Errorf("endpoints are by %q, want %q", kube.EndpointReconcilerType, want)
			}
		})
	}
}

// TestAdvertisesTheFamilyOfServices checks that a server which is bound to an address of IPv6 starts, whatever
// the routes of the machine.
func TestAdvertisesTheFamilyOfServices(t *testing.T) {
	for _, bound := range []string{"::1", "::", "127.0.0.1", "0.0.0.0"} {
		kube := server.NewOptions().Kube
		kube.SecureServing.BindAddress = net.ParseIP(bound)
		if err := (Options{BindAddress: bound}).advertise(kube); err != nil {
			t.Errorf("bound to %s: %v", bound, err)
		} else if address := kube.GenericServerRunOptions.AdvertiseAddress; address.To4() == nil {
			t.Errorf("bound to %s, %v is advertised", bound, address)
		}
	}
	kube := server.NewOptions().Kube
	kube.SecureServing.BindAddress = net.ParseIP("2001:db8::1")
	expectError(t, Options{BindAddress: "2001:db8::1"}.advertise(kube), "name an IPv4 address of this machine")
}

// TestAuthenticateBy checks that a bundle of the caller issues no system users.
func TestAuthenticateBy(t *testing.T) {
	own, system := &pki.Authority{File: "own"}, &pki.Authority{File: "system"}
	for name, tc := range map[string]struct {
		keys                            pki.PKI
		bundle, wantClients, wantSystem string
	}{
		"of the directory":             {pki.PKI{ClientCA: own}, "", "own", ""},
		"of the directory, and others": {pki.PKI{ClientCA: own}, "bundle", "bundle", "own"},
		"mounted":                      {pki.PKI{ClientCA: own, SystemCA: system}, "", "own", "system"},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			o.Server.Authentication.Upstream.ClientCert.ClientCA = tc.bundle
			authenticateBy(&tc.keys, o.Server)
			upstream := o.Server.Kube.Authentication
			if upstream.ClientCert.ClientCA != tc.wantClients || o.Server.Authentication.SystemClientCAFile != tc.wantSystem {
				t.Errorf("clients are issued by %q, system users by %q", upstream.ClientCert.ClientCA, o.Server.Authentication.SystemClientCAFile)
			}
			if diff := cmp.Diff([]string{tc.keys.ServiceAccountKey()}, upstream.ServiceAccounts.KeyFiles); diff != "" {
				t.Errorf("what verifies service accounts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKeys checks that keys of somebody else are not made here.
func TestKeys(t *testing.T) {
	empty := t.TempDir()
	if keys, err := (Options{PKIDir: empty, BindAddress: "127.0.0.1"}).keys(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, %v", keys, err)
	}
	if made, err := os.ReadDir(empty); err != nil || len(made) > 0 {
		t.Errorf("there are %v, %v", made, err)
	}
	keys, err := Options{BindAddress: "127.0.0.1", TLSNames: []string{"a.example.com"}}.keys(filepath.Join(t.TempDir(), "pki"))
	if err != nil || keys.SystemCA != nil {
		t.Errorf("got %+v, %v", keys, err)
	}
}

// TestRunRefuses checks that Run makes nothing before its options are valid.
func TestRunRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	o := NewOptions()
	o.Dir, o.BindAddress = dir, "localhost"
	expectError(t, Run(t.Context(), o, nil), "--bind-address")
	o.BindAddress, o.TLSNames = "127.0.0.1", []string{"a b"}
	expectError(t, Run(t.Context(), o, nil), "--tls-san")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
}

func TestIgnoreCanceled(t *testing.T) {
	other := errors.New("other")
	for err, want := range map[error]error{nil: nil, context.Canceled: nil, other: other, context.DeadlineExceeded: context.DeadlineExceeded} {
		if got := ignoreCanceled(err); !errors.Is(got, want) || (got == nil) != (want == nil) {
			t.Errorf("of %v: %v, want %v", err, got, want)
		}
	}
}
