// Package storage tests that the objects of every space are kept apart where
// they are stored: in etcd's keys, in the watch cache, in lists, watches,
// continue tokens and every way of writing.
package storage
