// Command neighbour measures what a tenant's requests take while another tenant
// saturates the server: with reads, writes, watches, big lists, or writes that cost as
// much as the server allows. It prints Markdown.
//
//	make build && go run ./test/bench/neighbour
//
// Server, etcd and both tenants share the machine, which in earnest they would
// not. So the quiet tenant has real-time priority, which takes the right to give
// it (CAP_SYS_NICE) and chrt of util-linux, and the busy one runs when nothing else
// wants to: the figures show how the server shares itself, not how the machine does.
package main
