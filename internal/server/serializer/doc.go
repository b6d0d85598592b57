// Package serializer shows the tenant on the wire: metadata.tenant and
// metadata.selfLink, the full path of an object, in JSON and YAML.
//
// Upstream's types have no such field and protobuf has no room for one, so it is
// written while an object is encoded and taken out when one is decoded. What a
// client may put there is decided by package filters.
package serializer
