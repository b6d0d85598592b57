// Package intern lets equal strings share their memory.
//
// It is for the caches, where the objects of all tenants repeat the same names,
// keys and certificates. The table has a fixed size and takes no locks: a new string
// replaces the one that occupies its slot. Frequent strings are nearly always there, and
// a rare one costs nothing once its object is gone. Package unique has an entry for every
// string.
package intern
