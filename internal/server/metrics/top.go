package metrics

import (
	"cmp"
	"slices"
)

// Amount is how much a tenant has of something.
type Amount struct {
	Tenant         string
	Objects, Bytes int64
}

// Top sorts what tenants have. It returns the limit first, which have series of their own, and
// the others, which have series together.
func Top[T any](all []T, limit int, compare func(a, b T) int) (own, others []T) {
	slices.SortFunc(all, compare)
	limit = min(limit, len(all))
	return all[:limit:limit], all[limit:]
}

// Largest returns the limit amounts with the most bytes, and then the sum of the rest. It sorts
// its argument.
func Largest(amounts []Amount, limit int) []Amount {
	own, others := Top(amounts, limit, func(a, b Amount) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Tenant, b.Tenant))
	})
	together := Amount{Tenant: Others}
	for _, other := range others {
		together.Objects += other.Objects
		together.Bytes += other.Bytes
	}
	return append(own, together)
}
