// Package probes answers the probes of a kubelet, /healthz and /readyz, and what else is asked of a process by plain
// HTTP.
package probes

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// Serve answers at an address until stop is called. An empty address, or 0, is none. ready says why the process is not
// ready, nil if it is.
func Serve(address string, ready func() error) (stop func(), err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return Listen("--health-probe-bind-address", address, mux)
}

// Listen serves at the address that a flag has until stop is called. An empty address, or 0, is none.
func Listen(flag, address string, handler http.Handler) (stop func(), err error) {
	if address == "" || address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return func() { _ = server.Close() }, nil
}
