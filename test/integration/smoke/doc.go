// Package smoke tests the way of a first user: two tenants, the same names in
// both, and nothing of one to be seen from the other.
package smoke
