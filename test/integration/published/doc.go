// Package published tests that published objects are in every space, and stay
// there as they are, against a running Tenantry (acceptance/tenancy.md, 34).
package published
