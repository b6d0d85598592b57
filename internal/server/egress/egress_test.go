package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestCheck(t *testing.T) {
	var options Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(flags)
	check := func(verdicts map[string]bool) {
		t.Helper()
		for address, denied := range verdicts {
			if err := options.check(t.Context(), "acme", address, []netip.Addr{netip.MustParseAddr("192.0.2.9")}); (err != nil) != denied {
				t.Errorf("%s: %v, want an error: %v", address, err, denied)
			}
		}
	}
	always := map[string]bool{
		"127.0.0.1:443":                true,
		"127.8.9.1:443":                true,
		"[::1]:443":                    true,
		"[::ffff:127.0.0.1]:443":       true,
		"[64:ff9b::7f00:1]:443":        true,
		"0.0.0.0:443":                  true,
		"[::]:443":                     true,
		"[::ffff:0.0.0.0]:443":         true,
		"169.254.169.254:443":          true,
		"[::ffff:169.254.169.254]:443": true,
		"[64:ff9b::a9fe:a9fe]:443":     true,
		"[fe80::1]:443":                true,
		"[fd00:ec2::254]:443":          true,
		"[fd00:ec2::253]:443":          false,
		"[fd00:ec2::23]:443":           true,
		"[fd00:c1::a9fe:a9fe]:443":     true,
		"[fd00:42::42]:443":            true,
		"[fd20:ce::254]:443":           true,
		"168.63.129.16:443":            true,
		"[64:ff9b::a83f:8110]:443":     true, // the same by NAT64
		"100.100.100.200:443":          true,
		"100.100.100.201:443":          false,
		"192.0.0.192:443":              true,
		"224.0.0.1:443":                true,
		"[ff02::1]:443":                true,
		"[2002:7f00:1::1]:443":         true,
		"[2002:a9fe:a9fe::1]:443":      true,
		"[2002:c000:209::]:443":        true,
		"[2002:c000:208::1]:443":       false,
		"[::127.0.0.1]:443":            true,
		"[::169.254.169.254]:443":      true,
		"[64:ff9b:1::7f00:1]:443":      true,
		"[64:ff9b:1:2:3::1]:443":       true,
		"192.0.2.9:443":                true, // as of a host
		"[::ffff:192.0.2.9]:443":       true,
		"192.0.2.8:443":                false,
		"[2001:db8::1]:443":            false,
		"[fe80::1%eth0]:443":           true, // what cannot be compared is refused
		"[2001:db8::1%eth0]:443":       true,
		"example.com:443":              true,
		"127.0.0.1":                    true,
	}
	check(always)
	check(map[string]bool{"10.1.2.3:443": false})
	if err := flags.Parse([]string{"--tenant-webhook-denied-cidrs=10.0.0.0/8"}); err != nil {
		t.Fatal(err)
	}
	check(always)
	check(map[string]bool{"10.1.2.3:443": true, "[::ffff:10.1.2.3]:443": true, "[64:ff9b::a01:203]:443": true})
	if err := flags.Parse([]string{"--tenant-webhook-allowed-cidrs=127.0.0.0/8,10.1.0.0/16,192.0.2.9/32"}); err != nil {
		t.Fatal(err)
	}
	check(map[string]bool{"10.1.2.3:443": false, "10.2.2.3:443": true, "127.0.0.1:443": false, "[::1]:443": true, "192.0.2.9:443": false})
	// By NAT64 it is the same machine, and by 6to4 another one behind it.
	check(map[string]bool{"[64:ff9b::a01:203]:443": false, "[2002:a01:203::1]:443": true, "[::10.1.2.3]:443": true, "[2002:a02:203::1]:443": true})
	if err := flags.Parse([]string{"--tenant-webhook-allowed-cidrs=2002:a02:203::/48"}); err != nil {
		t.Fatal(err)
	}
	check(map[string]bool{"[2002:a01:203::1]:443": true, "[2002:a02:203::1]:443": false})
}

// TestNetworks checks what the flags take.
func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "[10.0.0.0/8]", "fd00::/8, 10.0.0.1/32": "[fd00::/8,10.0.0.1/32]", "": "[]", "10.0.0.1/8": "write 10.0.0.0/8", "10.0.0.1": "is no network", "x": "is no network",
	} {
		var options Options
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		options.AddFlags(flags)
		if err := flags.Parse([]string{"--tenant-webhook-denied-cidrs=" + text}); err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		} else if got := flags.Lookup("tenant-webhook-denied-cidrs").Value.String(); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	options := Options{}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(flags)
	if err := flags.Parse([]string{"--tenant-webhook-denied-cidrs=10.0.0.0/8", "--tenant-webhook-denied-cidrs=11.0.0.0/8"}); err != nil || len(options.Denied) != 2 {
		t.Errorf("twice: %v, %v", options.Denied, err)
	}
}

// TestServiceAt checks that an address of the tenant's own Service is reached although its network is denied, and that
// of another tenant's is not although it is allowed. What is denied for other reasons stays so.
func TestServiceAt(t *testing.T) {
	options := Options{
		Denied: []net.IPNet{network("10.0.0.0/8")}, Allowed: []net.IPNet{network("10.43.1.0/24")},
		ServiceAt: func(_ context.Context, n tenant.Name, at netip.AddrPort) Whose {
			switch of, ok := map[string]tenant.Name{
				"10.43.0.1": "acme", "10.43.0.2": "globex", "10.43.1.1": "globex", "10.43.0.9": "acme", "169.254.169.254": "acme", "192.0.2.1": "globex",
			}[at.Addr().String()]; {
			case !ok:
				return Nobodys
			case of == n && at.Port() == 443:
				return Own
			default:
				return Others
			}
		},
	}
	for address, denied := range map[string]bool{
		"10.43.0.1:443":            false,
		"[::ffff:10.43.0.1]:443":   false,
		"10.43.0.1:10250":          true,
		"[64:ff9b::a2b:1]:10250":   true,
		"10.43.0.2:443":            true,
		"[64:ff9b::a2b:2]:443":     true,
		"10.43.0.3:443":            true,
		"10.43.1.1:443":            true,
		"[64:ff9b::a2b:101]:443":   true,
		"10.43.1.2:443":            false,
		"10.43.0.9:443":            true, // of a host
		"169.254.169.254:443":      true,
		"192.0.2.1:443":            true,
		"192.0.2.2:443":            false,
		"[2001:db8::a2b:1]:443":    false,
		"[2002:a2b:1::a2b:1]:443":  true,
		"[2002:a2b:101::a2b]:8443": true,
	} {
		if err := options.check(t.Context(), "acme", address, []netip.Addr{netip.MustParseAddr("10.43.0.9")}); (err != nil) != denied {
			t.Errorf("%s: %v, want an error: %v", address, err, denied)
		}
	}
}

// A machine's own addresses and the hosts' are denied by whatever name.
func TestDenied(t *testing.T) {
	local, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	denied, err := Options{Hosts: []string{"192.0.2.1", "localhost", "::ffff:192.0.2.2"}}.denied(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wanted := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.2")}
	for _, a := range local {
		wanted = append(wanted, netip.MustParsePrefix(a.String()).Addr())
	}
	for _, ip := range wanted {
		if !slices.Contains(denied, ip) {
			t.Errorf("%s is not denied: %v", ip, denied)
		}
	}
	// Nothing is reached while it is not known where etcd is.
	unknown := Options{Hosts: []string{"etcd.invalid"}, Allowed: []net.IPNet{network("127.0.0.0/8")}}
	if _, err := unknown.denied(t.Context()); !isLookupOf(err, "etcd.invalid") {
		t.Errorf("a host without addresses is ignored: %v", err)
	}
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if conn, err := unknown.dial("acme")(t.Context(), "tcp", open.Addr().String()); err == nil {
		conn.Close()
		t.Error("something is connected to")
	} else if !isLookupOf(err, "etcd.invalid") {
		t.Errorf("it is refused for another reason: %v", err)
	}
}

// isLookupOf reports whether an error is of the look-up of a name.
func isLookupOf(err error, name string) bool {
	failed := (*net.DNSError)(nil)
	return errors.As(err, &failed) && failed.Name == name
}

func TestForTenant(t *testing.T) {
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	trusted := func(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		// Upstream dials services itself.
		config := &rest.Config{BearerToken: "all rights", UserAgent: "server", Dial: (&net.Dialer{}).DialContext}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc:        func(string) (*rest.Config, error) { return config, nil },
			ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return config, nil },
		}
	}
	resolver := Options{}.ForTenant("acme", trusted)(nil)
	byURL, err := resolver.ClientConfigFor("localhost:443")
	if err != nil {
		t.Fatal(err)
	}
	byService, err := resolver.ClientConfigForService("kubernetes", "default", 443)
	if err != nil {
		t.Fatal(err)
	}
	for kind, config := range map[string]*rest.Config{"URL": byURL, "service": byService} {
		if config.BearerToken != "" || config.UserAgent != "server" {
			t.Errorf("%s: token %q, user agent %q", kind, config.BearerToken, config.UserAgent)
		}
		for _, address := range []string{server.Listener.Addr().String(), strings.Replace(server.Listener.Addr().String(), "127.0.0.1", "localhost", 1)} {
			if conn, err := config.Dial(asking(t, "acme"), "tcp", address); err == nil {
				conn.Close()
				t.Errorf("%s: connected to %s", kind, address)
			} else if !errors.Is(err, errDenied) {
				t.Errorf("%s: %v", kind, err)
			}
		}
	}
	if asked {
		t.Error("the server was asked")
	}
}

func TestSelectorDials(t *testing.T) {
	selected := func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }
	config, err := Options{Selected: true}.restrict("acme", &rest.Config{Dial: selected}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Dial(asking(t, "acme"), "tcp", "169.254.169.254:443"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, want the error of the egress selector", err)
	}
	if config, err := (Options{}).restrict("acme", &rest.Config{}, net.ErrClosed); !errors.Is(err, net.ErrClosed) || config != nil {
		t.Errorf("got %v, %v; want the error of upstream", config, err)
	}
}

// Whatever there is, or is not, at an address, a tenant is told the same.
func TestWhatFailsLooksTheSame(t *testing.T) {
	open := httptest.NewTLSServer(http.NotFoundHandler())
	defer open.Close()
	plain := httptest.NewServer(answering("application/json", "{}"))
	defer plain.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	ports := map[string]string{
		"open": open.Listener.Addr().String(), "plain": plain.Listener.Addr().String(),
		"silent": silent.Addr().String(), "closed": closed.Addr().String(),
	}
	ask := func(o Options, url string) error {
		config, err := o.restrict("acme", &rest.Config{Timeout: time.Second + 200*time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Post(url, "application/json", strings.NewReader("{}"))
		if err == nil {
			response.Body.Close()
			return nil
		}
		return errors.Unwrap(err) // of what the tenant has asked for
	}
	loopback := Options{Allowed: []net.IPNet{network("127.0.0.0/8")}}
	for name, address := range ports {
		if err := ask(Options{}, "https://"+address); err != errUnreachable { //nolint:errorlint // nothing else may be in it
			t.Errorf("%s, denied: %v", name, err)
		}
		if err := ask(loopback, "https://"+address); err != errUnreachable { //nolint:errorlint // nothing else may be in it
			t.Errorf("%s, allowed: %v", name, err)
		}
	}
	if err := ask(loopback, plain.URL); err != nil {
		t.Errorf("allowed and there: %v", err)
	}
}

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestWhatIsNoSecret(t *testing.T) {
	req := httptest.NewRequest(http.MethodPost, "https://hook.ns.svc", nil)
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "hook")
	if _, err := (opaque{next: failing{missing}}).RoundTrip(req); !apierrors.IsNotFound(err) {
		t.Errorf("the own service is missing: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (opaque{next: failing{context.Canceled}}).RoundTrip(req.WithContext(gone)); !errors.Is(err, context.Canceled) {
		t.Errorf("the client has gone: %v", err)
	}
	if _, err := (opaque{next: failing{context.Canceled}}).RoundTrip(req); !errors.Is(err, errUnreachable) {
		t.Errorf("the connection has gone: %v", err)
	}
}

func network(cidr string) net.IPNet {
	_, n, err := net.ParseCIDR(cidr)
	if err != nil {
		panic(err) // of a constant
	}
	return *n
}
