package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

var home = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "default", UID: "n"}

// equal returns two sides that are as they are to be, with one pod.
func equal() sides {
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "p", Labels: map[string]string{editionLabel: "2"}, Annotations: map[string]string{names.HostUIDAnnotation: "h"}},
		Spec:       corev1.PodSpec{NodeName: "node"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7"},
	}
	host := corev1.Pod{ObjectMeta: home.Meta("a", &pod), Spec: pod.Spec, Status: pod.Status}
	host.UID, host.Labels[editionLabel] = "h", "2"
	secret := corev1.Secret{ObjectMeta: home.Meta(names.Tokens(pod.UID), &pod)}
	secret.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "a", UID: "h"}}
	in := besides(metav1.ObjectMeta{Namespace: "default", Name: leadingName, UID: "s"}, metav1.ObjectMeta{Namespace: "default", Name: settingsName, UID: "c"})
	there := besides(home.Meta(leadingName, &in.services[0]), home.Meta(names.Copy(settingsName), &in.configMaps[0]))
	return sides{
		pods: []corev1.Pod{pod}, hostPods: []corev1.Pod{host}, secrets: []corev1.Secret{secret},
		besides: []besidePods{{in, sets.New("10.0.0.7")}}, hostBeside: there,
	}
}

// besides returns a Service that leads to the pod of equal, and a ConfigMap.
func besides(service, configMap metav1.ObjectMeta) beside {
	return beside{
		services:   []corev1.Service{{ObjectMeta: service, Spec: corev1.ServiceSpec{ClusterIP: "10.1.0.1", Selector: map[string]string{appLabel: "bench"}}}},
		configMaps: []corev1.ConfigMap{{ObjectMeta: configMap, Data: map[string]string{editionKey: "1"}}},
		slices: []discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.7"}}, {Addresses: []string{"10.0.0.8"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}}},
		}},
	}
}

// TestDifferences checks that whatever differs is told.
func TestDifferences(t *testing.T) {
	for want, change := range map[string]func(*sides, map[types.UID]string){
		"":                        func(*sides, map[types.UID]string) {},
		"has no Secret":           func(s *sides, _ map[types.UID]string) { s.secrets = nil },
		"or that of another pod":  func(s *sides, _ map[types.UID]string) { s.secrets[0].OwnerReferences[0].UID = "before" },
		"is not on the host":      func(s *sides, _ map[types.UID]string) { s.hostPods = nil },
		"has two pods for p":      func(s *sides, _ map[types.UID]string) { s.hostPods = append(s.hostPods, s.hostPods[0]) },
		"and is in no space":      func(s *sides, _ map[types.UID]string) { s.pods = nil },
		"for p, which is in no":   func(s *sides, _ map[types.UID]string) { s.pods = nil },
		"or never acknowledged":   func(_ *sides, wanted map[types.UID]string) { delete(wanted, "p") },
		"and was given \"3\"":     func(_ *sides, wanted map[types.UID]string) { wanted["p"] = "3" },
		"labels":                  func(s *sides, _ map[types.UID]string) { s.hostPods[0].Labels[editionLabel] = "1" },
		"the phase: \"Running\"":  func(s *sides, _ map[types.UID]string) { s.hostPods[0].Status.Phase = corev1.PodPending },
		"that both are to have":   func(s *sides, _ map[types.UID]string) { s.pods[0].Status.Phase = corev1.PodPending },
		"whose status it has":     func(s *sides, _ map[types.UID]string) { s.hostPods[0].UID = "another" },
		"the node":                func(s *sides, _ map[types.UID]string) { s.pods[0].Spec.NodeName = "" },
		"the address":             func(s *sides, _ map[types.UID]string) { s.pods[0].Status.PodIP = "" },
		"the host's namespace":    func(s *sides, _ map[types.UID]string) { s.hostPods[0].Namespace = "elsewhere" },
		"of a pod that is in no ": func(s *sides, wanted map[types.UID]string) { *s = sides{secrets: s.secrets}; delete(wanted, "p") },
		"(s) is not on the host":  func(s *sides, _ map[types.UID]string) { s.hostBeside.services = nil },
		"(c) is not on the host":  func(s *sides, _ map[types.UID]string) { s.hostBeside.configMaps = nil },
		"has the Service":         func(s *sides, _ map[types.UID]string) { s.besides[0].services = nil },
		"has the ConfigMap":       func(s *sides, _ map[types.UID]string) { s.besides[0].configMaps = nil },
		"which it has twice": func(s *sides, _ map[types.UID]string) {
			s.hostBeside.services = append(s.hostBeside.services, s.hostBeside.services...)
		},
		"has the address 10.1.0.1":         func(s *sides, _ map[types.UID]string) { s.hostBeside.services[0].Spec.ClusterIP = "10.1.0.2" },
		"is map[edition:1]":                func(s *sides, _ map[types.UID]string) { s.hostBeside.configMaps[0].Data[editionKey] = "0" },
		"leads to 0 pods, and there are 1": func(s *sides, _ map[types.UID]string) { s.besides[0].slices = nil },
		"leads to [10.0.0.7] in its space": func(s *sides, _ map[types.UID]string) { s.hostBeside.slices = nil },
		"and to [10.0.0.8] on the host": func(s *sides, _ map[types.UID]string) {
			s.hostBeside.slices[0].Endpoints[1].Conditions.Ready = nil
		},
	} {
		t.Run(want, func(t *testing.T) {
			s, wanted := equal(), map[types.UID]string{"p": "2"}
			change(&s, wanted)
			got := s.differences(wanted)
			if (len(got) > 0) != (want != "") || want != "" && !slices.ContainsFunc(got, func(d string) bool { return strings.Contains(d, want) }) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestTwice checks that a second pod of the host for one of a space is noticed, also when the first one has gone, and
// so is what was not seen.
func TestTwice(t *testing.T) {
	pods, seen := equal().hostPods, &twice{hosts: map[types.UID]types.UID{}}
	if len(seen.missed(pods)) != 1 {
		t.Error("a pod that nobody has seen is not missed")
	}
	seen.see(&pods[0], false)
	seen.see(&pods[0], true)
	if n, found := seen.all(); n != 1 || len(found) > 0 || len(seen.missed(pods)) > 0 {
		t.Errorf("of one pod: %d, %v", n, found)
	}
	pods[0].UID = "second"
	seen.see(&pods[0], false)
	if _, found := seen.all(); len(found) != 1 {
		t.Errorf("of two pods: %v", found)
	}
}
