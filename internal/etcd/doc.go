// Package etcd runs etcd inside this process and tells the API server how to reach it:
// through memory, without a socket, so that no other process can.
//
// It keeps upstream's durability (every acknowledged write is on disk) and
// leaves compaction to the API server, which compacts every five minutes.
package etcd
