package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/test/harness"
)

const configMaps = "/api/v1/namespaces/default/configmaps"

// tenant sends requests as the administrator of a space. It does not decode the
// answers, which would cost as much as the server's part.
type tenant struct {
	host   string
	client *http.Client
}

func newTenant(kubeconfig string) (*tenant, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// A dialer of its own gives each client a connection of its own.
	config.Dial = (&net.Dialer{}).DialContext
	client, err := rest.HTTPClientFor(config)
	return &tenant{host: config.Host, client: client}, err
}

// do sends a request and reads the answer.
func (t *tenant) do(ctx context.Context, method, path, contentType, body string) (int, error) {
	response, err := t.begin(ctx, method, path, contentType, body)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

func (t *tenant) begin(ctx context.Context, method, path, contentType, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, t.host+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	return t.client.Do(request)
}

func (t *tenant) create(ctx context.Context, name, data string) (int, error) {
	return t.do(ctx, http.MethodPost, configMaps, "application/json", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"app":"bench"}},"data":{"k":%q}}`, name, data))
}

func (t *tenant) delete(ctx context.Context, name string) (int, error) {
	return t.do(ctx, http.MethodDelete, configMaps+"/"+name, "", "")
}

func object(i int) string { return fmt.Sprintf("object-%05d", i) }

// prepare creates objects.
func (t *tenant) prepare(ctx context.Context, count int, data string) error {
	_, err := harness.Each(0, count, 8, func(i int) error {
		status, err := t.create(ctx, object(i), data)
		return expect(status, err, http.StatusCreated)
	})
	return err
}

// kinds are the requests of the quiet tenant.
var kinds = []string{"get", "list", "create"}

type samples struct {
	latencies []time.Duration
	refused   int
}

func (s samples) quantile(q float64) time.Duration { return harness.Quantile(s.latencies, q) }

// pause is between two requests of the quiet tenant.
const pause = 5 * time.Millisecond

// measure sends requests of each kind in turn, one at a time.
func (t *tenant) measure(ctx context.Context, duration time.Duration) (map[string]samples, error) {
	results := map[string]samples{}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	began := time.Now()
	for i := 0; time.Since(began) < duration; i++ {
		name := fmt.Sprintf("probe-%d", began.UnixNano()+int64(i))
		for _, kind := range kinds {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			var status int
			var err error
			sent := time.Now()
			switch kind {
			case "get":
				status, err = t.do(ctx, http.MethodGet, configMaps+"/"+object(i%50), "", "")
			case "list":
				status, err = t.do(ctx, http.MethodGet, configMaps, "", "")
			case "create":
				status, err = t.create(ctx, name, "v")
			}
			took := time.Since(sent)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			s := results[kind]
			switch {
			case status == http.StatusTooManyRequests:
				s.refused++
			case status >= 300:
				return nil, fmt.Errorf("%s: status %d", kind, status)
			}
			s.latencies = append(s.latencies, took)
			results[kind] = s
		}
		if _, err := t.delete(ctx, name); err != nil {
			return nil, err
		}
	}
	return results, nil
}
