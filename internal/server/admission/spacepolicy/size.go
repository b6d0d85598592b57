package spacepolicy

import "github.com/tenantry/tenantry/internal/process/memory"

// ReplicaBytes returns about how many bytes of memory one replica of a StatefulSet takes, in
// any version: a copy of the template, and for each claim one of its own with the labels of
// the selector.
func ReplicaBytes[Template, Claim, Selector any](template Template, claims []Claim, selector Selector) int {
	return memory.Of(template) + memory.Of(claims) + len(claims)*memory.Of(selector)
}
