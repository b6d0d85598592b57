// Package usage measures what each tenant's users ask of this server and what its
// space stores, for the metrics and the status of Tenants.
//
// The number of series is bounded: the tenants with the most requests of late have
// series of their own, and all others one set together. A tenant's series begin at
// zero when it is given them, and go when others take its place.
package usage
