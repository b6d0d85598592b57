// Package rights says what a user may list in a space, as a set instead of one decision at a time,
// and at which revision that is so.
//
// It follows what decides rights from the stream of all changes, in indexes of its own, which are of
// the same types as those of the server's authorizer: the authorizer's own follow each resource
// apart, and nobody can tell at which revision they are together. It decides no request.
package rights
