// Command neighbour measures what a tenant's requests take while another tenant
// saturates the server: with reads, writes, watches, or big lists. It prints
// Markdown.
//
//	make build && go run ./test/bench/neighbour
//
// Server, etcd and both tenants share the machine. The busy tenant is a process
// of low scheduling priority, so that it takes what the server leaves and the
// figures show how the server shares itself, not how the machine does.
package main
