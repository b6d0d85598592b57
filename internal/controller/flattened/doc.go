// Package flattened lets a cache of controller-runtime, which knows no tenants, hold objects of
// all spaces: their names are flattened, and what a controller does not read is left out.
package flattened
