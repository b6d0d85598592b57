// Package serviceips keeps the cluster IPs of every space allocated.
//
// All spaces take the addresses of their Services from one range, so that no two Services
// have the same one: upstream's allocator creates an IPAddress in the system space for
// each. Its repair loop deletes IPAddresses whose Service it does not find. It only
// sees the Services of the system space; All lets it find those of all spaces.
//
// An IPAddress names its Service by namespace and name, without the space. The loop
// gets one Service by such a name, with the addresses of all Services of that name, in
// any space. It gets no events of Services in tenants' spaces.
package serviceips
