// Command quota measures what it costs that a tenant is charged: config maps are
// created and deleted in a space whose quota does not limit them, in one that
// limits their number, and in one that limits bytes. It prints Markdown.
//
//	make build && ./bin/tenantry up --dir DIR &
//	go run ./test/bench/quota -kubeconfig DIR/admin.kubeconfig
package main
