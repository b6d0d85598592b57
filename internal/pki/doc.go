// Package pki owns the keys and certificates of one installation: the files in
// DIR/pki, made on first start and used again after that, and the client
// certificates signed by them. Those of a directory that somebody else keeps are read
// alone.
//
// It knows where a certificate says which tenant its user belongs to, but decides
// nothing: authentication reads it back.
package pki
