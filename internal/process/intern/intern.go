// Package intern lets equal strings share their memory.
//
// It is for the caches, where the objects of all tenants repeat the same names,
// keys and certificates. The table has a fixed size and takes no locks: a string
// that finds its slot taken by another replaces it. What occurs often is nearly
// always there, and what occurs once costs nothing for longer than its object,
// which is why package unique, with an entry for every string, is not used.
package intern

import (
	"hash/maphash"
	"sync/atomic"
)

const slots = 8192

var (
	seed  = maphash.MakeSeed()
	table [slots]atomic.Pointer[string]
)

// String returns a string equal to s, one that earlier calls returned if there
// is one at hand.
func String(s string) string {
	if s == "" {
		return ""
	}
	slot := &table[maphash.String(seed, s)%slots]
	if p := slot.Load(); p != nil && *p == s {
		return *p
	}
	kept := s // taking the address of s itself would allocate in every call
	slot.Store(&kept)
	return s
}

// Map replaces the keys and values of m by interned ones.
func Map(m map[string]string) {
	for key, value := range m {
		m[String(key)] = String(value)
	}
}
