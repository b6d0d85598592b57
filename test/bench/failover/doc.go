// Command failover runs three servers and two managers on an etcd of three members, all of them
// processes of this machine, behind one address that passes connections on as a Service does.
// Clients write and watch all the time, each in a space. Meanwhile servers are replaced, keys are
// renewed, and servers, managers and members of etcd are killed, one after the other and a majority
// of etcd at once. It counts the requests that fail, what was acknowledged and is not there, and how
// long clients wait for the next acknowledged write. It prints Markdown, and fails if
// something acknowledged is lost, or a request fails in a planned change.
//
//	make build && go run ./test/bench/failover
//	go run ./test/bench/failover -before path/to/tenantry    # the servers at first
package main
