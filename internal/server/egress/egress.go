// Package egress is how the server reaches addresses that a tenant chooses: those
// of its webhooks for admission and for the conversion of its custom resources.
package egress

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
)

// Options say where tenants' webhooks may be.
type Options struct {
	// Denied networks are reached by no webhook of a tenant, whatever name it has
	// for them.
	Denied []net.IPNet
	// Selected is set where an egress selector connects, which then has its own
	// rules.
	Selected bool
}

// NewOptions returns the defaults: link-local addresses, where clouds tell
// machines their credentials.
func NewOptions() Options {
	return Options{Denied: []net.IPNet{network("169.254.0.0/16"), network("fe80::/10")}}
}

func network(cidr string) net.IPNet {
	_, n, err := net.ParseCIDR(cidr)
	if err != nil {
		panic(err) // of a constant
	}
	return *n
}

// AddFlags adds the flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IPNetSliceVar(&o.Denied, "tenant-webhook-denied-cidrs", o.Denied,
		"Networks that no webhook of a tenant may be in, compared with the address that is connected to. "+
			"Add those of your infrastructure, such as 127.0.0.0/8,::1/128 and the networks of nodes and of etcd. "+
			"Webhooks of the system space are not affected. Has no effect where an egress selector or a proxy connects.")
}

// ForTenants returns wrap for the webhooks of a tenant. Upstream's wrap sends what
// goes to the service "kubernetes" with the server's own credentials; in a
// tenant's hands that would be every right there is.
func (o Options) ForTenants(wrap webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(resolver webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		wrapped := resolver
		if wrap != nil {
			wrapped = wrap(resolver)
		}
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
				return o.restrict(wrapped.ClientConfigFor(hostPort))
			},
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return o.restrict(wrapped.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

// restrict returns how to reach a server, without what it would know us by.
func (o Options) restrict(config *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	restricted := &rest.Config{Dial: o.dial, Proxy: config.Proxy, UserAgent: config.UserAgent, Timeout: config.Timeout, WrapTransport: withPatience}
	if o.Selected {
		restricted.Dial = config.Dial
	}
	restricted.Wrap(waiting.Transport)
	return restricted, nil
}

func (o Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: o.control}
	return dialer.DialContext(ctx, network, address)
}

// control sees the address after its name is resolved, and each one of several.
func (o Options) control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return fmt.Errorf("%q is not an address", host)
	}
	for _, denied := range o.Denied {
		if denied.Contains(ip) {
			return fmt.Errorf("webhooks of tenants may not be in network %s", denied.String())
		}
	}
	return nil
}
