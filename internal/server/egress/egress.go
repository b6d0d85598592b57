package egress

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/offlimits"
	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Options are the restrictions of tenants' webhooks.
type Options struct {
	// Denied networks are not reached by webhooks of tenants, under any name. What is off
	// limits, the addresses of the server's machine, and Hosts are denied, too.
	Denied []net.IPNet
	// Allowed are exceptions from Denied.
	Allowed []net.IPNet
	// Hosts are the addresses and names of servers that the server needs, such as etcd.
	Hosts []string
	// Selected is set if an egress selector connects, which has its own rules.
	Selected bool
	// ServiceAt, if set, says whose Service has an address of the cluster that runs the pods of spaces. The tenant's own
	// has not all ports: what answers at others is no pod of the tenant.
	ServiceAt func(ctx context.Context, n tenant.Name, at netip.AddrPort) Whose
	// StillAt, if set, is ServiceAt for a connection that is there, and asks no other server.
	StillAt func(ctx context.Context, n tenant.Name, at netip.AddrPort) Whose
	// Exceeded, if set, reports whether the objects of a space take more memory than they may, so that webhooks do not
	// make more of them.
	Exceeded func(tenant.Name) bool
}

// Whose is whose Service has an address.
type Whose int

// An address of the tenant's own Service is reached although its network is denied: it leads to pods of that
// tenant. That of another tenant's is not, also where its network is allowed: servers are let in there.
const (
	Nobodys Whose = iota
	Own
	Others
)

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.Var(&networks{of: &o.Denied}, "tenant-webhook-denied-cidrs",
		"Networks that no webhook of a tenant may be in, compared with the address that is connected to. "+
			"Loopback, link-local and multicast addresses, and those of the metadata of clouds, are denied anyway, as are those of the server's machine and of etcd. "+
			"Add those of your infrastructure, such as the networks of nodes. Services of the tenant that a host cluster has given their addresses are reached at their ports all the same. "+
			"Webhooks of the system space are not affected. Has no effect where an egress selector or a proxy connects.")
	fs.Var(&networks{of: &o.Allowed}, "tenant-webhook-allowed-cidrs",
		"Networks that webhooks of tenants may be in although they are denied, such as 127.0.0.0/8 for a webhook on the same machine.")
}

// ForTenant returns wrap for the webhooks of a tenant. Upstream's wrap sends requests
// to the service "kubernetes" with the server's own credentials, which would give a
// tenant every right.
func (o Options) ForTenant(n tenant.Name, wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(resolver webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		wrapped := resolver
		if wrap != nil {
			wrapped = wrap(resolver)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				config, err := wrapped.ClientConfigFor(hostPort)
				return o.restrict(n, config, err)
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				config, err := wrapped.ClientConfigForService(name, namespace, port)
				return o.restrict(n, config, err)
			},
		}
	}
}

// restrict returns the restricted configuration, without credentials.
func (o Options) restrict(n tenant.Name, config *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	restricted := &rest.Config{Dial: bounded(o.dial(n)), Proxy: config.Proxy, UserAgent: config.UserAgent, Timeout: config.Timeout}
	if o.Selected && config.Dial != nil { // nil is direct
		restricted.Dial = bounded(config.Dial)
	}
	boundAuthorities(restricted)
	restricted.Wrap(func(next http.RoundTripper) http.RoundTripper { return handshakes{next, n} })
	restricted.Wrap(func(next http.RoundTripper) http.RoundTripper { return sent{next, n} })
	restricted.Wrap(withTimeout)
	restricted.Wrap(waiting.Transport)
	restricted.Wrap(func(next http.RoundTripper) http.RoundTripper { return opaque{next, config.Timeout - time.Second} })
	restricted.Wrap(func(next http.RoundTripper) http.RoundTripper { return answers{next, n, o.Exceeded} })
	return restricted, nil
}

var (
	errUnreachable = errors.New("could not be reached: nothing answers there before the deadline with a certificate that fits caBundle, " +
		"or webhooks of tenants may not be at this address; ask the platform's administrators")
	errDenied = errors.New("webhooks of tenants may not be at this address")
)

// opaque replaces the reason why a webhook could not be reached.
type opaque struct {
	next http.RoundTripper
	// timeout is how long a response may take to begin, if it is positive. It is shorter
	// than that of net/http, whose error would differ.
	timeout time.Duration
}

// RoundTrip implements http.RoundTripper.
func (o opaque) RoundTrip(req *http.Request) (*http.Response, error) {
	timed := req
	if o.timeout > 0 {
		ctx, cancel := context.WithCancel(req.Context())
		defer time.AfterFunc(o.timeout, cancel).Stop()
		timed = req.WithContext(ctx)
	}
	response, err := o.next.RoundTrip(timed)
	switch {
	case err == nil:
		return response, nil
	case errors.Is(err, errAuthorities), errors.Is(err, errSent):
		return nil, err // not dialed, either
	case errors.As(err, new(apierrors.APIStatus)):
		return nil, err // not dialed: the service in the space, or its port, does not exist
	case errors.Is(err, context.Canceled) && req.Context().Err() != nil:
		return nil, context.Canceled // the request has ended; upstream counts these separately
	default:
		klog.V(2).InfoS("Could not reach the webhook of a tenant", "host", req.URL.Host, "err", err)
		return nil, errUnreachable
	}
}

// dial connects to the webhooks of a tenant.
func (o Options) dial(n tenant.Name) dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		o := o
		if address == proxyAddress() { // what is behind it, it decides itself
			o.Denied, o.ServiceAt, o.StillAt = nil, nil, nil
		}
		denied, err := o.denied(ctx)
		if err != nil {
			return nil, err
		}
		dialer := net.Dialer{KeepAlive: 30 * time.Second,
			// It is called with each resolved address.
			ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
				return o.check(ctx, n, address, denied)
			}}
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		o.ServiceAt = o.StillAt
		return &reached{conn, func(ctx context.Context) error { return o.check(ctx, n, conn.RemoteAddr().String(), nil) }}, nil
	}
}

// proxyAddress returns where the proxy is that the environment names, empty if it names none.
var proxyAddress = sync.OnceValue(func() string {
	u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: "webhook.invalid"}})
	if err != nil || u == nil {
		return ""
	}
	ports := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[u.Scheme]))
})

// denied returns the addresses that are denied beside networks: those of this
// machine and of the hosts, which may change. It does not depend on the dialed address,
// so its timing reveals nothing.
func (o Options) denied(ctx context.Context) ([]netip.Addr, error) {
	var denied []netip.Addr
	local, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range local {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			denied = append(denied, formsOf(prefix.Addr())...)
		}
	}
	for _, host := range o.Hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			denied = append(denied, formsOf(ip)...)
			continue
		}
		resolved, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		for _, ip := range resolved {
			denied = append(denied, formsOf(ip)...)
		}
	}
	return denied, nil
}

// check returns an error for an address that is denied, or that cannot be compared with
// denied ones, such as an address with a zone.
func (o Options) check(ctx context.Context, n tenant.Name, address string, denied []netip.Addr) error {
	parsed, err := netip.ParseAddrPort(address)
	if err != nil || parsed.Addr().Zone() != "" {
		return errDenied
	}
	ip, whose := offlimits.Translated(parsed.Addr()), Nobodys
	if o.ServiceAt != nil {
		whose = o.ServiceAt(ctx, n, netip.AddrPortFrom(ip, parsed.Port()))
	}
	if whose == Others {
		return errDenied
	}
	if isIn(o.Allowed, ip) {
		return nil
	}
	for _, ip := range formsOf(parsed.Addr()) {
		if slices.Contains(denied, ip) || isOffLimits(ip) || isIn(o.Denied, ip) && whose != Own {
			return errDenied
		}
	}
	return nil
}

// formsOf returns an address as it is, and the one of IPv4 that it stands for: what is denied may be written as either.
func formsOf(ip netip.Addr) []netip.Addr {
	return []netip.Addr{ip.Unmap(), offlimits.Embedded(ip)}
}

func isIn(networks []net.IPNet, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n net.IPNet) bool { return n.Contains(ip.AsSlice()) })
}

func isOffLimits(ip netip.Addr) bool {
	return slices.ContainsFunc(offlimits.Networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}
