package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// ndots is how many dots a name has that is looked for as it is before it is looked for in the domains of the space.
const ndots = "5"

// AsksForSpaces reports whether a pod of a space asks for the names of its space. Without an answer it would ask the
// node.
func AsksForSpaces(spec *corev1.PodSpec) bool {
	return spec.DNSPolicy != corev1.DNSNone && spec.DNSPolicy != corev1.DNSDefault
}

// changeDNS has a pod ask the server of the spaces' names, as the kubelet would have it ask that of the cluster. It
// never asks the host's: that knows the Services of all tenants, and none of this space.
func (o Options) changeDNS(spec *corev1.PodSpec, namespace string) {
	if !AsksForSpaces(spec) {
		return
	}
	if len(o.DNS) == 0 {
		spec.DNSPolicy = corev1.DNSDefault
		return
	}
	own := spec.DNSConfig
	if own == nil {
		own = &corev1.PodDNSConfig{}
	}
	domains := []string{namespace + ".svc." + names.Domain, "svc." + names.Domain, names.Domain}
	spec.DNSPolicy = corev1.DNSNone
	spec.DNSConfig = &corev1.PodDNSConfig{
		Nameservers: firstOf(validation.MaxDNSNameservers, o.DNS, own.Nameservers),
		Searches:    searches(domains, own.Searches),
		Options:     slices.Clone(own.Options),
	}
	if !slices.ContainsFunc(own.Options, func(option corev1.PodDNSConfigOption) bool { return option.Name == "ndots" }) {
		spec.DNSConfig.Options = append([]corev1.PodDNSConfigOption{{Name: "ndots", Value: new(ndots)}}, own.Options...)
	}
}

// searches returns the domains in which names are looked for, as many as a pod may have.
func searches(ours, own []string) []string {
	all := firstOf(validation.MaxDNSSearchPaths, ours, own)
	for len(strings.Join(all, " ")) > validation.MaxDNSSearchListChars {
		all = all[:len(all)-1]
	}
	return all
}

// firstOf returns the first of several texts, each of them once.
func firstOf(most int, lists ...[]string) []string {
	var all []string
	for _, text := range slices.Concat(lists...) {
		if len(all) < most && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}
