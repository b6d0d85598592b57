package dns

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// health says whether the server knows everything, and answers.
type health struct{ ready atomic.Bool }

// serve answers /healthz and /readyz until stop is called.
func (h *health) serve(address string) (stop func(), err error) {
	if address == "" || address == "0" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !h.ready.Load() {
			http.Error(w, "it is not known yet what there is on the host, or the server ends", http.StatusServiceUnavailable)
		}
	})
	probes := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = probes.Serve(listener) }() // until it is closed
	return func() { _ = probes.Close() }, nil
}
