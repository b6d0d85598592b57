package kubecontrollers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/server/bounds"
)

// maxMetricsBytes are those of an answer of a metrics API: some thousand pods.
const maxMetricsBytes = 8 << 20

// metricsConfig returns the configuration of clients of metrics APIs. In a space, definitions of the
// tenant may serve these, and of such objects nothing knows that clients read strings in them as
// quantities.
func metricsConfig(config *rest.Config) *rest.Config {
	bounded := rest.CopyConfig(config)
	bounded.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedMetrics{next} })
	return bounded
}

// boundedMetrics refuses answers that are large, or have numbers that take long to read.
type boundedMetrics struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m boundedMetrics) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := m.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxMetricsBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading metrics: %w", err)
	case len(body) > maxMetricsBytes:
		return nil, fmt.Errorf("the answer has more than %d bytes, which is not taken as metrics", maxMetricsBytes)
	}
	if err := bounds.Metrics(body); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}
