// Package keystone authenticates by tokens of OpenStack's Keystone, and by its passwords: which users and groups
// they stand for, and what is remembered of them. It does not know which tenant a domain is;
// package authentication settles that with each request.
package keystone
