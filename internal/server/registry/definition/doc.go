// Package definition validates objects of built-in types by the schema of their
// CustomResourceDefinition, so that the server and a host cluster accept the same objects.
package definition
