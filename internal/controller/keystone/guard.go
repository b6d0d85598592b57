package keystone

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// defaultRemovedPercent is the share of what is known that may go between two runs.
const defaultRemovedPercent = 30

// census counts what is known of a kind, and names what has gone, or has been disabled, since the
// last run.
type census struct {
	known          int
	gone, disabled []string
}

// see counts one that is known. What had gone earlier is not seen.
func (c *census) see(id string, gone, disabled bool) {
	c.known++
	switch {
	case gone:
		c.gone = append(c.gone, id)
	case disabled:
		c.disabled = append(c.disabled, id)
	}
}

// isTooMuch reports whether more has gone, or is disabled, than may.
func (c *census) isTooMuch(percent int) bool {
	return (len(c.gone)+len(c.disabled))*100 > percent*c.known
}

// guard returns what has gone if it is too much, and nobody has acknowledged that. What is disabled
// alone is left out: nobody does that by mistake, and it is undone as easily.
func guard(spec *v1alpha1.KeystoneGuard, domains, projects census) *v1alpha1.KeystoneRemoved {
	percent := defaultRemovedPercent
	if spec.MaxRemovedPercent != nil {
		percent = int(*spec.MaxRemovedPercent)
	}
	for _, c := range []*census{&domains, &projects} {
		if len(c.disabled) == 1 {
			c.disabled = nil
		}
	}
	if !domains.isTooMuch(percent) && !projects.isTooMuch(percent) {
		return nil
	}
	removed := &v1alpha1.KeystoneRemoved{
		Domains: int32(len(domains.gone)), Projects: int32(len(projects.gone)),
		DisabledDomains: int32(len(domains.disabled)), DisabledProjects: int32(len(projects.disabled)),
		Token: tokenOf(domains.gone, projects.gone, domains.disabled, projects.disabled),
	}
	if spec.Acknowledged == removed.Token {
		return nil
	}
	return removed
}

// tokenOf returns what stands for lists of ids, and for no others.
func tokenOf(lists ...[]string) string {
	var text []string
	for _, ids := range lists {
		text = append(text, strings.Join(slices.Sorted(slices.Values(ids)), ","))
	}
	sum := sha256.Sum256([]byte(strings.Join(text, "/")))
	return hex.EncodeToString(sum[:8])
}

// describe says what has gone.
func describe(r *v1alpha1.KeystoneRemoved) string {
	text := fmt.Sprintf("%d domains and %d projects are gone from Keystone's lists", r.Domains, r.Projects)
	if r.DisabledDomains+r.DisabledProjects > 0 {
		text += fmt.Sprintf(", %d domains and %d projects are disabled", r.DisabledDomains, r.DisabledProjects)
	}
	return text
}
