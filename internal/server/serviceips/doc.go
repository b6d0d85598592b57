// Package serviceips keeps the cluster IPs of every space allocated.
//
// All spaces take their Services' addresses from one range, so that no two hold
// the same one: upstream's allocator creates an IPAddress in the system space for
// each. Its repair loop deletes those whose Service it does not find. It would
// know the Services of the system space alone; All lets it find those of all spaces.
//
// An IPAddress names its Service by namespace and name, without the space. What
// the loop finds by such a name has the addresses of all Services called so, in
// whatever space. Of the spaces' Services it does not hear otherwise.
package serviceips
