// Package etcdstore makes upstream's storage of objects on an etcd client of ours, so that
// transactions can be fenced, and so that what a list decodes is seen at once, or several
// objects are decoded at once.
package etcdstore
