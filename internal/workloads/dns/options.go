package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/probes"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
)

const (
	// resolvConf is where upstreams are if nobody names them.
	resolvConf = "/etc/resolv.conf"
	// defaultLameDuck is how long a server that ends still answers: the host takes a moment to send nobody to it.
	defaultLameDuck = 5 * time.Second
	// shutdownTimeout is how long answers that are being made have after that.
	shutdownTimeout = 5 * time.Second
	idleTimeout     = 5 * time.Second
	// maxForwardRate is how much Options.TenantForwardRate is at most.
	maxForwardRate = 1_000_000
	// readBuffer is how many bytes of questions wait to be read: some thousand.
	readBuffer = 4 << 20
)

// loopback are ranges that are a process's own, wherever it runs.
var loopback = []string{"127.0.0.0/8", "0.0.0.0/8", "::/127"}

// Options configure the server.
type Options struct {
	// Host is the configuration of the ServiceAccount dns on the host.
	Host *rest.Config
	// BindAddress is where questions arrive, by UDP and TCP.
	BindAddress string
	// HealthProbeBindAddress is where /healthz and /readyz are, 0 for nowhere.
	HealthProbeBindAddress string
	// Forward are the upstreams for names outside, those of resolvConf if there are none.
	Forward []string
	// HostDomain is the domain of the host's own names, empty if it is that of spaces.
	HostDomain string
	// ClusterCIDRs are ranges of the host's pods, Services and nodes, beside all private ones.
	ClusterCIDRs []string
	// TTL is how long, in whole seconds, clients may remember names of spaces.
	TTL time.Duration
	// MaxForwarded is how many questions are forwarded at once. A tenant has a quarter of that.
	MaxForwarded int
	// TenantRate is how many questions are accepted from one tenant in a second, counted in windows of 100 ms. Further
	// ones are dropped.
	TenantRate int
	// TenantForwardRate is how many questions upstreams are asked for a tenant in a second, after a burst of two and a
	// half times as many.
	TenantForwardRate int
	// TrustIPv6 is whether the host's network has checked the source of what arrives by UDP over IPv6.
	TrustIPv6 bool
	// LameDuck is how long a server that ends still answers. Zero is defaultLameDuck.
	LameDuck time.Duration
	// patience, if set, takes the place of defaultPatience.
	patience time.Duration
	// Started, if set, is called with the address at which questions arrive.
	Started func(address string)
}

// NewOptions returns the defaults.
func NewOptions() Options {
	return Options{
		BindAddress: ":1053", HealthProbeBindAddress: "0", TTL: 5 * time.Second, MaxForwarded: 512, TenantRate: 5000, TenantForwardRate: 200,
	}
}

// AddFlags adds the flags of the server.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "Address and port at which questions arrive, by UDP and TCP.")
	fs.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress, "Address of /healthz and /readyz, 0 for none.")
	fs.StringSliceVar(&o.Forward, "forward", o.Forward,
		"Addresses of upstreams for names outside, with or without a port, divided by commas. If there are none, those of "+resolvConf+", loopback addresses left out.")
	fs.StringVar(&o.HostDomain, "host-cluster-domain", o.HostDomain,
		"Cluster domain of the host cluster, if it is another one than "+names.Domain+". No upstream is asked for names in either.")
	fs.StringSliceVar(&o.ClusterCIDRs, "cluster-cidrs", o.ClusterCIDRs,
		"Ranges of addresses of the host cluster's pods, Services and nodes. No upstream is asked whose these are, nor private addresses.")
	fs.DurationVar(&o.TTL, "ttl", o.TTL, "How long clients may remember names of spaces, in whole seconds.")
	fs.IntVar(&o.MaxForwarded, "max-forwarded", o.MaxForwarded, "How many questions upstreams are asked at once. A tenant has a quarter of that at most.")
	fs.IntVar(&o.TenantRate, "tenant-queries-per-second", o.TenantRate, "Questions that each replica accepts from one tenant, per second, counted in windows of 100 ms. Further ones are dropped.")
	fs.IntVar(&o.TenantForwardRate, "tenant-forwarded-per-second", o.TenantForwardRate,
		"How many questions upstreams are asked for a tenant in a second, after a burst of two and a half times as many. Others fail. What is remembered is not asked.")
	fs.BoolVar(&o.TrustIPv6, "trust-ipv6-sources", o.TrustIPv6,
		"Answer by UDP over IPv6, and not by TCP alone. Only if the network plugin of the host cluster drops what pods send in the name of other addresses: "+
			"otherwise every pod can ask in the name of another tenant's.")
}

// Validate reports what is wrong with the flags.
func (o *Options) Validate() error {
	_, err := o.newServer(nil)
	return err
}

// newServer makes the server of the options.
func (o *Options) newServer(host *directory) (*server, error) {
	switch {
	case !isBindAddress(o.BindAddress):
		return nil, fmt.Errorf("--bind-address is %q, and must be an IP address and a port, such as 192.0.2.1:1053, or :1053 for all addresses", o.BindAddress)
	case o.TTL < 0 || o.TTL > time.Hour || o.TTL%time.Second != 0:
		return nil, fmt.Errorf("--ttl is %s, and must be in whole seconds, from 0s to 1h", o.TTL)
	case o.MaxForwarded < 1:
		return nil, fmt.Errorf("--max-forwarded is %d, and must be positive", o.MaxForwarded)
	case o.TenantRate < 1:
		return nil, fmt.Errorf("--tenant-queries-per-second is %d, and must be positive", o.TenantRate)
	case o.TenantForwardRate < 1 || o.TenantForwardRate > maxForwardRate:
		return nil, fmt.Errorf("--tenant-forwarded-per-second is %d, and must be between 1 and %d", o.TenantForwardRate, maxForwardRate)
	case o.HostDomain != "" && len(validation.IsDNS1123Subdomain(o.HostDomain)) > 0:
		return nil, fmt.Errorf("--host-cluster-domain: %q is no domain, such as %s", o.HostDomain, names.Domain)
	}
	ranges, err := network.Parse(append(slices.Clone(o.ClusterCIDRs), loopback...))
	if err != nil {
		return nil, fmt.Errorf("--cluster-cidrs: %w", err)
	}
	upstreams, err := upstreamsOf(o.Forward, resolvConf)
	if err != nil {
		return nil, fmt.Errorf("--forward: %w", err)
	}
	s := &server{
		panics: rate.Sometimes{Interval: time.Minute},
		host:   host, domains: []string{names.Domain + "."}, inside: network.NewRanges(nil, ranges),
		ttl:   uint32(o.TTL / time.Second), // an hour at most
		rates: newRates(o.TenantRate), patience: defaultPatience, waiting: newQueue[netip.Addr](maxWaiting),
		processors: newProcessors(), trustsIPv6: o.TrustIPv6,
	}
	if o.HostDomain != "" && o.HostDomain != names.Domain {
		s.domains = append(s.domains, o.HostDomain+".")
	}
	s.forward = &forwarder{
		upstreams: upstreams, turns: newTurns[tenantID](o.MaxForwarded, max(1, o.MaxForwarded/4), maxQueued), budget: newBudget(o.TenantForwardRate), answers: newAnswers(), isInside: s.isInside,
	}
	return s, nil
}

// Run answers questions until ctx ends.
func Run(ctx context.Context, o Options) error {
	ServeMetrics()
	config := rest.CopyConfig(o.Host)
	config.UserAgent = "tenantry-dns"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating the client of the host cluster: %w", err)
	}
	return o.run(ctx, client)
}

var errNotReady = errors.New("it is not known yet what there is on the host, or the server ends")

func (o *Options) run(ctx context.Context, client kubernetes.Interface) error {
	host, err := newDirectory(client)
	if err != nil {
		return err
	}
	s, err := o.newServer(host)
	if err != nil {
		return err
	}
	if o.patience > 0 {
		s.patience = o.patience
	}
	if len(s.forward.upstreams) == 0 {
		klog.FromContext(ctx).Error(errNoUpstream, "Names outside are not answered: name upstreams by --forward", "file", resolvConf)
	}
	ready := &atomic.Bool{} // once it knows everything, and answers
	stop, err := probes.Serve(o.HealthProbeBindAddress, func() error {
		if !ready.Load() {
			return errNotReady
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer stop()
	// It knows the host as long as it answers, which is longer than ctx.
	knows, forget := context.WithCancel(context.WithoutCancel(ctx))
	defer forget()
	context.AfterFunc(ctx, func() {
		if !ready.Load() {
			forget()
		}
	})
	starts, known := context.WithCancel(knows)
	defer known()
	go sayAway(starts, client)
	if !host.run(knows) {
		return ctx.Err()
	}
	known()
	return o.answer(ctx, s, ready)
}

// awayPeriod is how often a start says why it does not know the host yet.
const awayPeriod = 10 * time.Second

// sayAway logs why the host is not known yet, until ctx ends: informers try again in silence where nobody listens.
func sayAway(ctx context.Context, client kubernetes.Interface) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		_, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel, Limit: 1})
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Waiting for the host cluster")
		}
	}, awayPeriod)
}

// answer answers questions until some time after ctx has ended.
func (o *Options) answer(ctx context.Context, s *server, ready *atomic.Bool) error {
	packets, connections, err := listen(o.BindAddress)
	if err != nil {
		return err
	}
	decorate := func(r dns.Reader) dns.Reader { return reader{r, s} }
	servers := []*dns.Server{
		{PacketConn: packets, Handler: s, DecorateReader: decorate, UDPSize: udpSize},
		{Listener: &listener{Listener: connections, server: s, open: map[party][]*connection{}}, Handler: s, DecorateReader: decorate, IdleTimeout: func() time.Duration { return idleTimeout }},
	}
	ended := make(chan error, len(servers))
	for _, server := range servers {
		go func() { ended <- server.ActivateAndServe() }()
	}
	ready.Store(true)
	if o.Started != nil {
		o.Started(packets.LocalAddr().String())
	}
	select {
	case <-ctx.Done():
		ready.Store(false)
		time.Sleep(cmp.Or(o.LameDuck, defaultLameDuck))
	case err = <-ended:
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, server := range servers {
		_ = server.ShutdownContext(last) // what is not answered by now is asked again, elsewhere
	}
	return errors.Join(err, ctx.Err())
}

// isBindAddress reports whether somebody can listen at an address. Without one before the port, that is at all.
func isBindAddress(address string) bool {
	if strings.HasPrefix(address, ":") {
		address = "[::]" + address
	}
	_, err := netip.ParseAddrPort(address)
	return err == nil
}

// listenAttempts is how often a port is looked for, if any will do: one that is free for UDP may be taken for TCP.
const listenAttempts = 20

// listen listens at an address, by UDP and TCP.
func listen(address string) (net.PacketConn, net.Listener, error) {
	_, port, _ := net.SplitHostPort(address)
	for attempt := 1; ; attempt++ {
		packets, err := net.ListenPacket("udp", address)
		if err != nil {
			return nil, nil, fmt.Errorf("--bind-address: %w", err)
		}
		connections, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			if conn, ok := packets.(*net.UDPConn); ok {
				_ = conn.SetReadBuffer(readBuffer) // or what the system allows
			}
			return packets, connections, nil
		}
		_ = packets.Close()
		if port != "0" || attempt == listenAttempts {
			return nil, nil, fmt.Errorf("--bind-address: %w", err)
		}
	}
}
