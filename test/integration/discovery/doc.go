// Package discovery tests what clients expect to find in every cluster, and so
// in a space: discovery and OpenAPI with the space's own resources, the Service
// of the API server, the default ClusterRoles, and reviews of tokens.
package discovery
