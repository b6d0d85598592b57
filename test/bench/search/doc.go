// Command search measures the index of searches in SQLite and in PostgreSQL, of generated objects in many spaces: how
// long it takes to build, how large it is, and how long queries take. It writes to the index by its own interface, as
// the service does, without etcd.
//
//	go run ./test/bench/search -database sqlite -objects 1000000
package main
