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

// hostServices says whose Service has an address of the host cluster. Nothing in a space proves that: Services that
// were there before pods ran have addresses that the host may have given to others. So the host is asked.
type hostServices struct {
	views  cache.Indexer
	homeOf func(ctx context.Context, n tenant.Name, namespace string) (names.Namespace, error)
	host   coreclient.ServicesGetter
	// answers are what the host has said of late.
	answers *utilcache.Expiring
}

// hostAnswer is what an answer of the host is about, which has the ports of all, and asked is that it has been asked of
// late.
type hostAnswer struct {
	service types.UID
	at      netip.Addr
	asked   bool
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
	return h.whose(n, at, func(service *corev1.Service) bool { return h.confirmed(ctx, service, at) })
}

// stillAt implements egress.Options.StillAt, by what the Services of spaces say alone.
func (h *hostServices) stillAt(_ context.Context, n tenant.Name, at netip.AddrPort) egress.Whose {
	return h.whose(n, at, func(*corev1.Service) bool { return true })
}

func (h *hostServices) whose(n tenant.Name, at netip.AddrPort, confirmed func(*corev1.Service) bool) egress.Whose {
	found, err := h.views.ByIndex(byAddress, at.Addr().String())
	if err != nil || len(found) == 0 {
		return egress.Nobodys
	}
	for _, obj := range found {
		service := obj.(*corev1.Service)
		if tenant.Flat(service.Namespace).Space() == n && hasPort(service.Spec.Ports, at.Port()) && confirmed(service) {
			return egress.Own
		}
	}
	return egress.Others
}

// hasPort reports whether a port is one of a Service. Where nodes have its address, at other ports is what listens
// there.
func hasPort(all []corev1.ServicePort, port uint16) bool {
	return slices.ContainsFunc(all, func(p corev1.ServicePort) bool { return p.Protocol == corev1.ProtocolTCP && p.Port == int32(port) })
}

// confirmed reports whether the host has given an address to a Service of a space, which has a port there as well.
func (h *hostServices) confirmed(ctx context.Context, service *corev1.Service, at netip.AddrPort) bool {
	about, asked := hostAnswer{service.UID, at.Addr(), false}, hostAnswer{service.UID, at.Addr(), true}
	known, _ := h.answers.Get(about)
	if ports, _ := known.([]corev1.ServicePort); hasPort(ports, at.Port()) {
		return true
	}
	if _, lately := h.answers.Get(asked); lately {
		return false
	}
	ports, err := h.given(ctx, service, at.Addr())
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Asking the host cluster for the Service of a webhook", "service", klog.KObj(service), "err", err)
	}
	h.answers.Set(asked, nil, refusedFor)
	if err == nil {
		h.answers.Set(about, ports, confirmedFor)
	}
	return hasPort(ports, at.Port())
}

// given returns the ports of a Service to which the host has given an address, none if it has not.
func (h *hostServices) given(ctx context.Context, service *corev1.Service, at netip.Addr) ([]corev1.ServicePort, error) {
	n, namespace := tenant.Flat(service.Namespace).Split()
	home, err := h.homeOf(ctx, n, namespace)
	if err != nil {
		return nil, err
	}
	there, err := h.host.Services(home.Host()).Get(ctx, service.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if home.Has(there, service.Name) && there.Annotations[names.UIDAnnotation] == string(service.UID) &&
		slices.Contains(there.Spec.ClusterIPs, at.String()) {
		return there.Spec.Ports, nil
	}
	return nil, nil
}
