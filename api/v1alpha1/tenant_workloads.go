package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// HasHostName reports whether a host name is among those that are granted, as in hostNames of Workloads. One that can be
// none, such as one in capitals, is not.
func HasHostName(granted []string, name string) bool {
	if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
		return false
	}
	_, domain, _ := strings.Cut(name, ".")
	return slices.Contains(granted, name) || domain != "" && slices.Contains(granted, "*."+domain)
}

// lists says what of names, classes and annotations that a Tenant asks for is beyond these, empty if nothing is.
func (w *Workloads) lists(wanted *Workloads) string {
	if wanted == nil {
		return ""
	}
	var most Workloads
	if w != nil {
		most = *w
	}
	for _, name := range wanted.HostNames {
		if !HasHostName(most.HostNames, name) {
			return fmt.Sprintf("Ingresses of Tenants of this host may not name %q", name)
		}
	}
	for _, list := range []struct {
		what         string
		wanted, most []string
	}{
		{"classes that Ingresses", wanted.IngressClasses, most.IngressClasses}, {"annotations that Ingresses", wanted.IngressAnnotations, most.IngressAnnotations},
		{"annotations that load balancers", wanted.LoadBalancerAnnotations, most.LoadBalancerAnnotations},
	} {
		for _, key := range list.wanted {
			if !slices.Contains(list.most, key) {
				return fmt.Sprintf("%q is not one of the %s of Tenants of this host may have", key, list.what)
			}
		}
	}
	return ""
}
