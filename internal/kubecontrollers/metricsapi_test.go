package kubecontrollers

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// TestMetrics checks that answers of metrics APIs, which tenants define, are bounded.
func TestMetrics(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		ok   bool
	}{
		"of pods":                  {`{"items":[{"containers":[{"usage":{"cpu":"156340n","memory":"12Mi"}}]}]}`, true},
		"UIDs like numbers":        {`{"metadata":{"uid":"7e123456-0000-4000-8000-000000000000"}}`, true},
		"small":                    {`{"items":[{"usage":{"cpu":"1e-1000000000"}}]}`, false},
		"large":                    {`{"items":[{"value":"1e2147483647"}]}`, false},
		"escaped":                  {`{"items":[{"value":"1\u0065-1000000000"}]}`, false},
		"more bytes than are read": {`{"a":"` + strings.Repeat("a", maxMetricsBytes) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.body) }))
			defer server.Close()
			client, err := rest.HTTPClientFor(metricsConfig(&rest.Config{Host: server.URL}, nil))
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Get(server.URL + "/apis/metrics.k8s.io/v1beta1/pods")
			if (err == nil) != tc.ok {
				t.Fatalf("got %v", err)
			}
			if err != nil {
				return
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); err != nil || string(got) != tc.body {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestMetricsOfAutoscalers checks that the controller's clients of metrics APIs are bounded.
func TestMetricsOfAutoscalers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[{"value":"1e2000","containers":[{"usage":{"cpu":"1e2000"}}]}]}`)
	}))
	defer server.Close()
	client, err := newMetricsClient(&environment{shared: &shared{unwrapped: &rest.Config{Host: server.URL}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.GetExternalMetric("queue", "a|ns", labels.Everything()); err == nil || !strings.Contains(err.Error(), "reading metrics") {
		t.Errorf("got %v of external metrics", err)
	}
	if _, _, err := client.GetResourceMetric(t.Context(), corev1.ResourceCPU, "a|ns", labels.Everything(), ""); err == nil || !strings.Contains(err.Error(), "reading metrics") {
		t.Errorf("got %v of the metrics of pods", err)
	}
}
