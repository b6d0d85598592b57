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

// String returns a string equal to s, the one of an earlier call if the table still has it.
func String(s string) string {
	if s == "" {
		return ""
	}
	slot := &table[maphash.String(seed, s)%slots]
	if p := slot.Load(); p != nil && *p == s {
		return *p
	}
	entry := s // taking the address of s itself would allocate in every call
	slot.Store(&entry)
	return s
}

// Map replaces the keys and values of m by interned ones.
func Map(m map[string]string) {
	for key, value := range m {
		m[String(key)] = String(value)
	}
}
