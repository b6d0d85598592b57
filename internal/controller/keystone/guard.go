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

// census counts what is known of a kind, and names what has gone since the last run.
type census struct {
	known int
	gone  []string
}

// see counts one that is known. What had gone earlier is not seen.
func (c *census) see(id string, gone bool) {
	if c.known++; gone {
		c.gone = append(c.gone, id)
	}
}

// isTooMuch reports whether more has gone than may go.
func (c *census) isTooMuch(percent int) bool { return len(c.gone)*100 > percent*c.known }

// guard returns what has gone if it is too much, and nobody has acknowledged that.
func guard(spec *v1alpha1.KeystoneGuard, domains, projects census) *v1alpha1.KeystoneRemoved {
	percent := defaultRemovedPercent
	if spec.MaxRemovedPercent != nil {
		percent = int(*spec.MaxRemovedPercent)
	}
	if !domains.isTooMuch(percent) && !projects.isTooMuch(percent) {
		return nil
	}
	removed := &v1alpha1.KeystoneRemoved{
		Domains: int32(len(domains.gone)), Projects: int32(len(projects.gone)),
		Token: tokenOf(domains.gone, projects.gone),
	}
	if spec.Acknowledged == removed.Token {
		return nil
	}
	return removed
}

// tokenOf returns what stands for what has gone, and for nothing else.
func tokenOf(domains, projects []string) string {
	slices.Sort(domains)
	slices.Sort(projects)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s/%s", strings.Join(domains, ","), strings.Join(projects, ","))))
	return hex.EncodeToString(sum[:8])
}
