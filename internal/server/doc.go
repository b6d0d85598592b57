// Package server assembles the thin API server: a real Kubernetes API server
// built from unforked upstream libraries in which every tenant has a space of
// its own. It follows upstream's skeleton:
//
//	Options -> CompletedOptions -> config -> Server
//
// Tenancy enters at five places and nowhere else: the outermost filter (which
// space does the URL name), authentication (which tenant has the user),
// authorization (the boundary), admission (flattened views) and storage (keys).
package server
