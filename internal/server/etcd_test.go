package server

import (
	"net"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestRequestsToEtcdAreCountedAndTraced(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nothing := grpc.NewServer() // knows no requests
	go func() { _ = nothing.Serve(listener) }()
	t.Cleanup(nothing.Stop)
	spans := tracetest.NewSpanRecorder()
	client, err := dial(storagebackend.TransportConfig{
		ServerList: []string{"http://" + listener.Addr().String()}, TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })

	before := txnsToEtcd(t)
	if _, err := client.Txn(t.Context()).Commit(); err == nil {
		t.Fatal("somebody answered")
	}
	if got := txnsToEtcd(t); got != before+1 {
		t.Errorf("%v transactions were counted, want one", got-before)
	}
	traced := spans.Ended()
	if len(traced) != 1 || traced[0].Name() != "etcdserverpb.KV/Txn" {
		t.Errorf("got the spans %v, want that of the transaction", traced)
	}
}

// txnsToEtcd returns how many transactions the metrics know of.
func txnsToEtcd(t *testing.T) (count float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "grpc_client_started_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "grpc_method" && label.GetValue() == "Txn" {
					count += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return count
}
