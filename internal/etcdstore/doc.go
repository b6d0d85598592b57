// Package etcdstore makes upstream's storage of objects on an etcd client of ours, so that
// transactions can be fenced.
package etcdstore
