// Package processors gives the Go scheduler more processors (GOMAXPROCS) than the machine
// has cores.
//
// Go polls the network when one of its processors is idle, or every 10 milliseconds, and a
// goroutine keeps its processor for as long. With one processor for each core, a tenant
// that keeps all cores busy delays the requests of others tenfold. With more processors
// than cores, one of them always waits for the network, and the kernel gives it a core
// that others have used for longer.
package processors
