// Command tenants measures what tenants cost: how fast they become ready and at
// which rate, what an idle one adds to memory, goroutines, etcd watches and
// metric series, how long a list in one space takes beside all the others, how
// long the server takes to restart with them, and how much memory comes back
// when they are deleted. It prints Markdown.
//
//	go run ./test/bench/tenants -tenants 100,1000,10000
package main
