package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/probes"
	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// Run runs the syncer until ctx ends. It waits until no other one runs, and ends with an error if that cannot be
// known any longer.
func Run(ctx context.Context, o Options) error {
	ServeMetrics()
	if err := o.Validate(); err != nil {
		return err
	}
	var connected atomic.Pointer[syncer]
	stop, err := probes.Serve(o.HealthProbeBindAddress, func() error { return connected.Load().ready() })
	if err != nil {
		return err
	}
	defer stop()
	if o.Informers == nil {
		if o.Informers, err = spaces.NewInformerFactory(asSyncer(o.Spaces), 0); err != nil {
			return err
		}
	}
	views := o.Informers.Scope()
	defer views.End()
	s, err := newSyncer(ctx, o, views)
	if err != nil {
		return err
	}
	defer s.queue.end()
	defer s.stale.end()
	connected.Store(s)
	return o.elected(ctx, s, func(ctx context.Context) error { return s.run(ctx, cmp.Or(o.Workers, defaultWorkers)) })
}

// errConnecting is that of a syncer that does not know yet whether it has its rights.
var errConnecting = errors.New("the syncer has not seen yet that it has its rights on the host cluster, and reaches the control plane")

// ready returns why pods do not run, nil if they do, or if another syncer has to see to that.
func (s *syncer) ready() error {
	switch {
	case s == nil:
		return errConnecting
	case s.isolated == nil || !s.leads.Load():
		return nil
	}
	if why := s.isolated.refusal(); why != "" {
		return errors.New(s.wayOut(why))
	}
	return nil
}

// asSyncer returns the configuration of clients that act as the syncer.
func asSyncer(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: tenant.Syncer, Groups: []string{user.SystemPrivilegedGroup}, Extra: map[string][]string{tenant.UserExtraKey: {tenant.System.String()}},
	}
	config.UserAgent = fieldManager
	config.QPS = -1
	return config
}

func newSyncer(ctx context.Context, o Options, views informers.SharedInformerFactory) (*syncer, error) {
	c, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	now := clock.RealClock{}
	chosen, err := newSettings(o, c.owner, now)
	if err != nil {
		return nil, err
	}
	all, err := newCaches(views)
	if err != nil {
		return nil, err
	}
	tenants, liveTenants, err := newTenants(spaces.ConfigIn(asSyncer(o.Spaces), tenant.System.Scope()))
	if err != nil {
		return nil, err
	}
	onHost, err := newHostCaches(c.host, c.routes.onHost.informer, c.installation, c.owner)
	if err != nil {
		return nil, err
	}
	configured, err := network.Parse(o.ClusterCIDRs)
	if err != nil {
		return nil, err
	}
	nodes, pace := newHostNodes(c.host), newPacing(now, cmp.Or(o.Workers, defaultWorkers))
	return &syncer{
		clock: now, clients: c, settings: chosen, caches: all, tenants: tenants, liveTenants: liveTenants, hostCaches: onHost,
		hostNodes: nodes, ranges: newHostRanges(c, nodes, onHost, configured), dns: newDNSService(c.host, o.DNSService),
		ending: newEndings(c, tenants, onHost, pace.queue, now), pacing: pace, notes: newNotes(now),
		guards: newGuards(now, o.OrphanLimit, wayOut(c.owner, "if it is right nevertheless, restart with a larger --orphan-limit")),
	}, nil
}

// newSettings reads what pods reach, and how tenants are kept apart.
func newSettings(o Options, owner names.Owner, c clock.Clock) (settings, error) {
	api, err := translate.ParseAPI(o.APIAddress)
	if err != nil {
		return settings{}, err
	}
	allowed, err := network.Parse(o.AllowCIDRs)
	if err != nil {
		return settings{}, err
	}
	s := settings{
		options: translate.Options{TrustLocalImages: o.TrustLocalImages, API: api}, connects: o.Connects, maxNamespaces: o.MaxNamespaces,
		image: o.Image, testPeriod: cmp.Or(o.TestPeriod, defaultTestPeriod),
		reachable: network.Reachable{Namespace: names.Platform, Addresses: allowed, API: api, Owner: owner},
	}
	if o.isolation() == Enforced {
		s.isolated = &isolation{clock: c, why: beingTested}
	}
	return s, nil
}

// connect makes the clients of both sides, and looks whether the host keeps its own within bounds.
func connect(ctx context.Context, o Options) (c clients, err error) {
	writing := spaces.NewClientConfig(asSyncer(o.Spaces), spaces.WithTimeout(requestTimeout), spaces.WithoutWaits())
	if c.spaces, err = kubernetes.NewForConfig(writing); err != nil {
		return c, fmt.Errorf("creating the client of all spaces: %w", err)
	}
	host := rest.CopyConfig(o.Host)
	host.QPS, host.UserAgent = -1, fieldManager
	if c.host, err = kubernetes.NewForConfig(host); err != nil {
		return c, fmt.Errorf("creating the client of the host cluster: %w", err)
	}
	if c.hostMetadata, err = metadata.NewForConfig(host); err != nil {
		return c, fmt.Errorf("creating the metadata client of the host cluster: %w", err)
	}
	if c.installation, err = installationOf(ctx, c.spaces); err != nil {
		return c, err
	}
	if c.routes, err = newRoutes(spaces.NewClientConfig(asSyncer(o.Spaces)), writing, host, c.installation); err != nil {
		return c, err
	}
	if c.owner, c.subjects, err = accountOf(ctx, c.host); err != nil {
		return c, err
	}
	if err := allowed(ctx, c.host, c.owner, c.installation); err != nil {
		return c, err
	}
	return c, confined(ctx, c.host)
}

// installationOf returns what marks the objects of an installation on hosts: the UID of the namespace kube-system
// of the system space, which is in etcd. The client is one of the flattened view, or of the system space.
func installationOf(ctx context.Context, client kubernetes.Interface) (string, error) {
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the id of this installation: %w", err)
	}
	return string(system.UID), nil
}
