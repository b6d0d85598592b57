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

func TestEtcdClientsConnectToEachEtcdOnce(t *testing.T) {
	of := func(servers ...string) storagebackend.Config {
		return storagebackend.Config{Transport: storagebackend.TransportConfig{ServerList: servers}}
	}
	c := &etcdClients{}
	clients, err := c.connectAll([]storagebackend.Config{of("http://127.0.0.1:1"), of("http://127.0.0.1:2", "http://127.0.0.1:3"), of("http://127.0.0.1:2", "http://127.0.0.1:3")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, client := range clients {
			_ = client.Close()
		}
	})
	if len(clients) != 2 {
		t.Fatalf("got %d clients, want 2", len(clients))
	}
	first, err := c.connect(of("http://127.0.0.1:1").Transport)
	if err != nil || first != clients[0] {
		t.Errorf("another client of the same etcd: %v", err)
	}
}
