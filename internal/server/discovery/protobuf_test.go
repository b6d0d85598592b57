package discovery

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/gnostic-models/compiler"
	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const documentV3 = `{"openapi":"3.0.0","info":{"title":"t","version":"1"},"paths":{"/p":{"get":{"description":"d","responses":{"200":{"description":"OK"}}}}},"components":{"schemas":{"s":{"type":"object","x-kubernetes-e":[1]}}}}`

// TestProtobuf compares protobuf with what upstream makes of the same document, and checks that it is made while
// another document is read, as upstream's is not.
func TestProtobuf(t *testing.T) {
	upstreamV2, err := handler.ToProtoBinary([]byte(documentV2))
	if err != nil {
		t.Fatal(err)
	}
	upstreamV3, err := handler3.ToV3ProtoBinary([]byte(documentV3))
	if err != nil {
		t.Fatal(err)
	}
	begun, end := make(chan struct{}), make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-end }))
	defer slow.Close()
	var reading sync.WaitGroup
	defer reading.Wait()
	defer close(end)
	reading.Go(func() { _, _ = compiler.ReadInfoForRef("", slow.URL+"#x") }) // it holds what upstream's parser waits for
	<-begun
	for _, of := range []struct {
		*format
		document string
		want     []byte
	}{{formatV2, documentV2, upstreamV2}, {formatV3, documentV3, upstreamV3}} {
		got, err := of.toProtobuf([]byte(of.document))
		if diff := cmp.Diff(of.want, got); diff != "" || err != nil {
			t.Errorf("protobuf differs from upstream's (-want +got), %v:\n%s", err, diff)
		}
	}
}

// TestProtobufIsServed compares what is answered to clients with what upstream's handler answers.
func TestProtobufIsServed(t *testing.T) {
	ask := func(of http.Handler, accept string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		of.ServeHTTP(w, asks(accept))
		return w
	}
	upstream := serveLazily(func() []*spec.Swagger { return []*spec.Swagger{documentOf("pods")} }, nil)
	document := &built{Handler: upstream, format: formatV2}
	for _, accept := range append(formatV2.mediaTypes, "", "*/*", "text/html", "application/json;q=0.1, "+formatV2.mediaTypes[1]) {
		document.encode(asks(accept))
		got, want := ask(document, accept), ask(upstream, accept)
		if diff := cmp.Diff(want.Header(), got.Header()); diff != "" || got.Code != want.Code || got.Body.String() != want.Body.String() {
			t.Errorf("%q is answered with %d, and headers that differ from upstream's (-want +got):\n%s", accept, got.Code, diff)
		}
	}
	if document.protobuf.Load() == nil {
		t.Error("upstream's protobuf was served")
	}
	if got := ask(document, "*/"+strings.TrimPrefix(formatV2.mediaTypes[1], "application/")); got.Header().Get("Content-Type") != "application/json" {
		t.Errorf("a range that is none is answered with %s: upstream makes that out of turn", got.Header().Get("Content-Type"))
	}
}

// notProtobuf serves documents of which no protobuf can be made.
type notProtobuf struct{ asked *atomic.Int64 }

func (d notProtobuf) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	d.asked.Add(1)
	_, _ = io.WriteString(w, "{}")
}

// TestNoProtobuf checks that it is tried once to make protobuf of a document of which none can be made, and that JSON
// is served nevertheless.
func TestNoProtobuf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v2, v3 := newBuiltCaches()
		for of, c := range map[*format]*builtCache{formatV2: v2, formatV3: v3} {
			var asked atomic.Int64
			status := func(accept string) int {
				t.Helper()
				document, err := c.getOrCreate(asks(accept), "space", "key", func() state {
					return state{"tag", counted(1), func() (http.Handler, error) { return notProtobuf{&asked}, nil }}
				})
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				document.ServeHTTP(w, asks(accept))
				return w.Code
			}
			for range 3 {
				if got := status(of.mediaTypes[1]); got != http.StatusNotAcceptable {
					t.Errorf("who asks for protobuf gets %d", got)
				}
			}
			if asked.Load() != 1 {
				t.Errorf("it is tried %d times", asked.Load())
			}
			if got := status("application/json"); got != http.StatusOK || asked.Load() != 2 {
				t.Errorf("who asks for JSON gets %d, after %d", got, asked.Load())
			}
		}
		time.Sleep(2 * unasked)
	})
}
