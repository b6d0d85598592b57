package spaces

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// endless answers each request and then says nothing more, or the same for ever.
func endless(text string) http.RoundTripper {
	return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Request: req, Body: io.NopCloser(&repeated{req.Context(), text})}, nil
	})
}

type repeated struct {
	ctx  context.Context
	text string
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.text != "" {
		return copy(p, bytes.Repeat([]byte(r.text), len(p)/len(r.text)+1)), nil
	}
	<-r.ctx.Done()
	return 0, io.EOF // as the end of a handler whose context has ended looks
}

func TestLimits(t *testing.T) {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for name, tc := range map[string]struct{ text, want string }{
		"of time":  {want: "no answer within 1m5s"},
		"of bytes": {text: " ", want: "the answer is too large"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := NewMetadataClient(NewIdentityClientConfig(&rest.Config{Transport: endless(tc.text)}))
				if err != nil {
					t.Fatal(err)
				}
				_, err = client.Resource(configMaps).Namespace("a|ns").Get(t.Context(), "a|x", metav1.GetOptions{})
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
			})
		})
	}
}

// TestErrorsOfServers checks that it is known why there is no answer: clients try again after some errors.
func TestErrorsOfServers(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	next := roundtrip.Func(func(*http.Request) (*http.Response, error) { return nil, refused })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := defaultLimits.roundTrip(next, req, 1); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
}

func TestLimitsOfLists(t *testing.T) {
	transport := &flatteningTransport{next: endless(" "), limits: limits{timeout: time.Minute, object: 10, list: 100}}
	for path, want := range map[string]int64{"/api/v1/namespaces/a|ns/pods": 100, "/api/v1/namespaces/a|ns/pods/x": 10, "/apis": 100} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := routeOf(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.send(req, &r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if n, err := io.ReadFull(response.Body, make([]byte, want)); err != nil {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
		if _, err := response.Body.Read(make([]byte, 1)); err != errTooLarge { //nolint:errorlint // returned as it is
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWatchesHaveNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, config := range []*rest.Config{NewClientConfig(&rest.Config{Transport: endless("")}), ConfigIn(&rest.Config{Transport: endless("")}, "a")} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			client, err := NewMetadataClient(config)
			if err != nil {
				t.Fatal(err)
			}
			watch, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			<-watch.ResultChan()
			if ctx.Err() == nil {
				t.Error("the watch has ended before its context")
			}
		}
	})
}
