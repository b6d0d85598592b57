package dns

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// TestHostAway checks that a start whose host does not answer says so.
func TestHostAway(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	logged := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logged))
	ended := make(chan error, 1)
	options := NewOptions()
	options.BindAddress, options.Forward = "127.0.0.1:0", []string{"192.0.2.53"}
	go func() { ended <- options.run(ctx, client) }()
	buffer := logged.GetSink().(ktesting.Underlier).GetBuffer()
	for said := ""; !strings.Contains(said, "Waiting for the host cluster") || !strings.Contains(said, address); said = buffer.String() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}
