// Package isolation tests the boundary between spaces resource by resource. Its
// table of requests is generated from discovery, so that a resource that is
// added joins by itself, and fails the suite as long as it has no seed.
package isolation
