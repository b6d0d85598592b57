package sync

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestDNS checks that pods ask the host's server of the spaces' names, and are told if they do not.
func TestDNS(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		policy corev1.DNSPolicy
		want   corev1.DNSPolicy
		event  string
	}{
		"a server":             {policy: corev1.DNSClusterFirst, want: corev1.DNSNone},
		"none":                 {change: func(w *world) { w.dns = newDNSService(w.onHost, "") }, policy: corev1.DNSClusterFirst, want: corev1.DNSDefault, event: "has no DNS for spaces"},
		"none, and unasked":    {change: func(w *world) { w.dns = newDNSService(w.onHost, "") }, policy: corev1.DNSDefault, want: corev1.DNSDefault},
		"that sees no clients": {change: func(w *world) { w.dns.note(w.t.Context(), true) }, policy: corev1.DNSClusterFirst, want: corev1.DNSDefault, event: "hides the addresses of pods"},
		"that sees them again": {change: func(w *world) { w.dns.note(w.t.Context(), true); w.dns.note(w.t.Context(), false) }, policy: corev1.DNSClusterFirst, want: corev1.DNSNone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, hostSpace(), spacePod(func(p *corev1.Pod) { p.Spec.DNSPolicy = tc.policy }))
			if tc.change != nil {
				tc.change(w)
			}
			if err := w.look(); err != nil {
				t.Fatal(err)
			}
			made, err := w.onHost.CoreV1().Pods(home.Host()).Get(t.Context(), "web-0", metav1.GetOptions{})
			if err != nil || made.Spec.DNSPolicy != tc.want {
				t.Errorf("it has %s, want %s, error %v", made.Spec.DNSPolicy, tc.want, err)
			}
			events, err := w.space.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for _, event := range events.Items {
				told = append(told, event.Reason+": "+event.Message)
			}
			if all := strings.Join(told, "\n"); (all == "") != (tc.event == "") || !strings.Contains(all, tc.event) {
				t.Errorf("the space is told %q", all)
			}
		})
	}
}

// TestDNSFamilies checks that pods ask over IPv6, where anybody may ask in another's name, only if there is nothing
// else.
func TestDNSFamilies(t *testing.T) {
	for _, tc := range []struct{ has, want []string }{
		{[]string{"10.43.0.10"}, []string{"10.43.0.10"}},
		{[]string{"fd00::10", "10.43.0.10"}, []string{"10.43.0.10"}},
		{[]string{"fd00::10"}, []string{"fd00::10"}},
		{[]string{corev1.ClusterIPNone}, nil},
	} {
		d := newDNSService(fake.NewClientset(), DefaultDNSService)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: names.Platform, Name: "dns"}, Spec: corev1.ServiceSpec{ClusterIPs: tc.has}}
		if err := d.informer.GetIndexer().Add(service); err != nil {
			t.Fatal(err)
		}
		if got := d.addresses(); len(got)+len(tc.want) > 0 && !slices.Equal(got, tc.want) {
			t.Errorf("of %v pods ask %v, want %v", tc.has, got, tc.want)
		}
	}
}
