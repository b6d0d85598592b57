package kubecontrollers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/spaces"
)

// maxMetricsBytes are those of an answer of a metrics API: some thousand pods.
const maxMetricsBytes = 8 << 20

// metricsConfig returns the configuration of clients of metrics APIs, on the flattened view. In a space, definitions of
// the tenant may serve these, and of such objects nothing knows that clients read strings in them as quantities. Large
// answers are refused where they are read first.
func metricsConfig(config *rest.Config, options []spaces.Option) *rest.Config {
	bounded := spaces.NewClientConfig(config, append(slices.Clip(options), spaces.WithMaxBytes(maxMetricsBytes))...)
	bounded.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedMetrics{next} })
	return bounded
}

// boundedMetrics refuses answers that have numbers that take long to read.
type boundedMetrics struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m boundedMetrics) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := m.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	if err := bounds.Metrics(body); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}
