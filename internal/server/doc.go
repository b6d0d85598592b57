// Package server assembles the thin API server: a real Kubernetes API server
// built from unforked upstream libraries in which every tenant has a space of
// its own. Options become CompletedOptions; of those the server is made in stages,
// each of which returns what is complete (assemble, New):
//
//	base      upstream's configuration, and the clients by which the server calls itself
//	stores    what is where in etcd; the storage of Tenants and the look-up over it
//	policy    authentication, authorization, admission, quota
//	configs   upstream's three configurations, on the storage of spaces
//	Server    the three servers, and before them the filters and the router of spaces
//
// Tenancy enters at five places and nowhere else: the outermost filter (which
// space does the URL name), authentication (which tenant has the user),
// authorization (the boundary), admission (flattened views) and storage (keys).
package server
