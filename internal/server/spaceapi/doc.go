// Package spaceapi says which built-in resources cannot be used in a tenant's space,
// and why: one table for requests, reviews of rights and discovery. It decides by the
// resource alone.
package spaceapi
