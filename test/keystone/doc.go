// Package keystone tests authentication and synchronisation against a real Keystone, which "make keystone"
// starts (the scripts up and down). Tests have the build tag keystone and read the
// administrator of the cloud from the variables OS_* of an openrc file.
package keystone
