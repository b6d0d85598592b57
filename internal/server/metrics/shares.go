package metrics

import (
	"cmp"
	"slices"
)

// Share is what a tenant has of something.
type Share struct {
	Tenant         string
	Objects, Bytes int64
}

// Largest returns the shares with the most bytes, so many, and then those of Others together.
func Largest(shares []Share, limit int) []Share {
	slices.SortFunc(shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Tenant, b.Tenant))
	})
	own := min(limit, len(shares))
	together := Share{Tenant: Others}
	for _, other := range shares[own:] {
		together.Objects += other.Objects
		together.Bytes += other.Bytes
	}
	return append(shares[:own:own], together)
}
