package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// settingsName is the ConfigMap that all changing pods of a namespace have, and leadingName their Service.
	settingsName, leadingName = "settings", "leading"
	editionKey                = "edition"
)

// beside are the objects that pods have beside them, in a namespace of a space or on the whole host: one ConfigMap and
// one Service in each namespace, which all its pods belong to, and Services that come and go.
type beside struct {
	services   []corev1.Service
	slices     []discoveryv1.EndpointSlice
	configMaps []corev1.ConfigMap
}

// prepare makes what the changing pods of a namespace belong to.
func (p podNamespace) prepare(ctx context.Context) error {
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: settingsName}, Data: map[string]string{editionKey: "0"}}
	if _, err := p.client.CoreV1().ConfigMaps(p.namespace).Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		return err
	}
	return p.createService(ctx, leadingName)
}

func (p podNamespace) createService(ctx context.Context, name string) error {
	_, err := p.client.CoreV1().Services(p.namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{appLabel: "bench"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	return err
}

// changeBeside edits the ConfigMap of a namespace, or has a Service come or go that nobody else changes.
func (p podNamespace) changeBeside(ctx context.Context, service string, random *rand.Rand) error {
	if random.IntN(2) == 0 {
		patch := fmt.Appendf(nil, `{"data":{%q:%q}}`, editionKey, strconv.FormatUint(random.Uint64(), 36))
		_, err := p.client.CoreV1().ConfigMaps(p.namespace).Patch(ctx, settingsName, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	err := p.client.CoreV1().Services(p.namespace).Delete(ctx, service, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		if err = p.createService(ctx, service); apierrors.IsServiceUnavailable(err) {
			return nil // until a syncer has taken the one before from the host
		}
	}
	return err
}

// readBeside reads what is in a namespace, of those with some label.
func (p podNamespace) readBeside(ctx context.Context, label string) (b beside, _ error) {
	labelled := metav1.ListOptions{LabelSelector: label}
	services, err := p.client.CoreV1().Services(p.namespace).List(ctx, labelled)
	if err != nil {
		return b, err
	}
	slices, err := p.client.DiscoveryV1().EndpointSlices(p.namespace).List(ctx, labelled)
	if err != nil {
		return b, err
	}
	configMaps, err := p.client.CoreV1().ConfigMaps(p.namespace).List(ctx, labelled)
	if err != nil {
		return b, err
	}
	return beside{services.Items, slices.Items, configMaps.Items}, nil
}

// surplus returns what the host has of what is in no space, or twice.
func (b *beside) surplus(spaces []besidePods) (all []string) {
	known := sets.New[types.UID]()
	for _, space := range spaces {
		for i := range space.services {
			known.Insert(space.services[i].UID)
		}
		for i := range space.configMaps {
			known.Insert(space.configMaps[i].UID)
		}
	}
	look := func(kind string, host metav1.Object) {
		if of := markOf(host); !known.Has(of) {
			all = append(all, fmt.Sprintf("the host has the %s %s/%s, which is in no space, or which it has twice", kind, host.GetNamespace(), host.GetName()))
		} else {
			known.Delete(of)
		}
	}
	for i := range b.services {
		look("Service", &b.services[i])
	}
	for i := range b.configMaps {
		look("ConfigMap", &b.configMaps[i])
	}
	return all
}

// besidePods is what a space has, with the addresses of its pods.
type besidePods struct {
	beside
	addresses sets.Set[string]
}

// differences returns in what the host has not what a space has.
func (b *besidePods) differences(host *beside) (all []string) {
	differ := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	services, configMaps := byMark(host.services), byMark(host.configMaps)
	for i := range b.services {
		service := &b.services[i]
		there := services[service.UID]
		if len(service.Spec.Selector) == 0 {
			continue
		}
		here := readyOf(b.slices, service)
		if !here.Equal(b.addresses) {
			differ("Service %s (%s) leads to %d pods, and there are %d", service.Name, service.UID, len(here), len(b.addresses))
		}
		if there == nil {
			differ("Service %s (%s) is not on the host", service.Name, service.UID)
			continue
		}
		if there.Spec.ClusterIP != service.Spec.ClusterIP {
			differ("Service %s (%s) has the address %s, and %s on the host", service.Name, service.UID, service.Spec.ClusterIP, there.Spec.ClusterIP)
		}
		if onHost := readyOf(host.slices, there); !onHost.Equal(here) {
			differ("Service %s (%s) leads to %v in its space alone, and to %v on the host alone", service.Name, service.UID, sets.List(here.Difference(onHost)), sets.List(onHost.Difference(here)))
		}
	}
	for i := range b.configMaps {
		source := &b.configMaps[i]
		if there := configMaps[source.UID]; there != nil && !maps.Equal(there.Data, source.Data) {
			differ("ConfigMap %s (%s) is %v, and %v on the host", source.Name, source.UID, source.Data, there.Data)
		} else if there == nil && source.Name == settingsName && len(b.addresses) > 0 {
			differ("ConfigMap %s (%s) is not on the host", source.Name, source.UID)
		}
	}
	return all
}

// readyOf returns the addresses to which a Service leads.
func readyOf(all []discoveryv1.EndpointSlice, service *corev1.Service) sets.Set[string] {
	ready := sets.New[string]()
	for i := range all {
		slice := &all[i]
		if slice.Namespace != service.Namespace || slice.Labels[discoveryv1.LabelServiceName] != service.Name {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				ready.Insert(endpoint.Addresses...)
			}
		}
	}
	return ready
}

// byMark returns objects of the host by the UIDs of what they are made of.
func byMark[T any, P interface {
	*T
	metav1.Object
}](all []T) map[types.UID]*T {
	by := map[types.UID]*T{}
	for i := range all {
		by[markOf(P(&all[i]))] = &all[i]
	}
	return by
}
