package keystone

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/keystone"
)

// selects reports whether a domain is among those of a KeystoneSync.
func selects(d *v1alpha1.KeystoneDomains, domain keystone.Ref) bool {
	if except := d.AllExcept; except != nil {
		return !slices.Contains(except.IDs, domain.ID) && !slices.Contains(except.Names, domain.Name)
	}
	return slices.Contains(d.IDs, domain.ID) || slices.Contains(d.Names, domain.Name)
}

// unknownDomains returns the ids and names of a KeystoneSync that are of no domain: it does nothing
// for them, also if they are misspelt. It is empty, not nil, if there are none.
func unknownDomains(d *v1alpha1.KeystoneDomains, domains []keystone.Domain) []string {
	ids, names := sets.New(d.IDs...), sets.New(d.Names...)
	if except := d.AllExcept; except != nil {
		ids, names = sets.New(except.IDs...), sets.New(except.Names...)
	}
	for _, domain := range domains {
		ids.Delete(domain.ID)
		names.Delete(domain.Name)
	}
	unknown := []string{}
	for _, id := range sets.List(ids) {
		unknown = append(unknown, fmt.Sprintf("with the id %q", id))
	}
	for _, name := range sets.List(names) {
		unknown = append(unknown, fmt.Sprintf("%q", keystone.Printable(name)))
	}
	return unknown
}

// earlier reports whether a comes before b, which then does nothing about domains of both.
func earlier(a, b *v1alpha1.KeystoneSync) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// overlap returns an earlier KeystoneSync that selects a domain which s selects, and the
// domain.
func overlap(s *v1alpha1.KeystoneSync, all []v1alpha1.KeystoneSync, domains []keystone.Domain) (string, keystone.Ref) {
	for i := range all {
		other := &all[i]
		if other.UID == s.UID || !earlier(other, s) {
			continue
		}
		for _, domain := range domains {
			if selects(&s.Spec.Domains, domain.Ref) && selects(&other.Spec.Domains, domain.Ref) {
				return other.Name, domain.Ref
			}
		}
	}
	return "", keystone.Ref{}
}
