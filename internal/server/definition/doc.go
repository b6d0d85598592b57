// Package definition has what the built-in types of the API have in common. It validates
// objects by the schema of their CustomResourceDefinition, so that the server and a host
// cluster accept the same objects.
package definition
