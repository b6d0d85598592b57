package server

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// hostServiceTimeout is how long the host has to say what a Service is.
	hostServiceTimeout = 5 * time.Second
	// confirmedFor is how long an address counts as that of a Service after the host has said so, and refusedFor
	// how long it does not.
	confirmedFor, refusedFor = time.Minute, 2 * time.Second
)

// byAddress indexes the Services of tenants' spaces by their cluster IPs.
const byAddress = "address"

// hostServices says whose Service has an address of the host cluster. Nothing in a space proves that: Services that were
// there before pods ran have addresses that the host may have given to others. So the host is asked.
type hostServices struct {
	views  cache.Indexer
	homeOf func(ctx context.Context, n tenant.Name, namespace string) (names.Namespace, error)
	host   coreclient.ServicesGetter
	// answers are what the host has said of late.
	answers *utilcache.Expiring
}

// hostAnswer is what an answer of the host is about.
type hostAnswer struct {
	service types.UID
	at      netip.AddrPort
}

// newHostServices indexes the Services of all spaces, before their informers are started.
func newHostServices(config *restclient.Config, b *base, s *stores) (*hostServices, error) {
	own := restclient.CopyConfig(config)
	own.QPS, own.Timeout = -1, hostServiceTimeout
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the host cluster: %w", err)
	}
	services := b.views.Core().V1().Services().Informer()
	if err := services.AddIndexers(cache.Indexers{byAddress: addressesOf}); err != nil {
		return nil, fmt.Errorf("indexing services: %w", err)
	}
	return &hostServices{services.GetIndexer(), homeOf(b, s), client.CoreV1(), utilcache.NewExpiring()}, nil
}

func addressesOf(obj any) ([]string, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("unexpected object %T", obj)
	}
	if !tenant.Flat(service.Namespace).Space().IsSpace() {
		return nil, nil
	}
	var all []string
	for _, text := range service.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			all = append(all, ip.String())
		}
	}
	return all, nil
}

// at implements egress.Options.ServiceAt.
func (h *hostServices) at(ctx context.Context, n tenant.Name, at netip.AddrPort) egress.Whose {
	found, err := h.views.ByIndex(byAddress, at.Addr().String())
	if err != nil || len(found) == 0 {
		return egress.Nobodys
	}
	for _, obj := range found {
		service := obj.(*corev1.Service)
		if tenant.Flat(service.Namespace).Space() == n && hasPort(service, at.Port()) && h.confirmed(ctx, service, at) {
			return egress.Own
		}
	}
	return egress.Others
}

// hasPort reports whether a Service has a port. Where nodes have its address, at other ports is what listens there.
func hasPort(service *corev1.Service, port uint16) bool {
	return slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolTCP && p.Port == int32(port) })
}

// confirmed reports whether the host has given an address to a Service of a space, which has a port there as well.
func (h *hostServices) confirmed(ctx context.Context, service *corev1.Service, at netip.AddrPort) bool {
	about := hostAnswer{service.UID, at}
	if known, ok := h.answers.Get(about); ok {
		return known.(bool)
	}
	given, err := h.given(ctx, service, at)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Asking the host cluster for the Service of a webhook", "service", klog.KObj(service), "err", err)
	}
	keep := refusedFor
	if given {
		keep = confirmedFor
	}
	h.answers.Set(about, given, keep)
	return given
}

func (h *hostServices) given(ctx context.Context, service *corev1.Service, at netip.AddrPort) (bool, error) {
	n, namespace := tenant.Flat(service.Namespace).Split()
	home, err := h.homeOf(ctx, n, namespace)
	if err != nil {
		return false, err
	}
	there, err := h.host.Services(home.Host()).Get(ctx, service.Name, metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return home.Has(there, service.Name) && there.Annotations[names.UIDAnnotation] == string(service.UID) &&
		slices.Contains(there.Spec.ClusterIPs, at.Addr().String()) && hasPort(there, at.Port()), nil
}
