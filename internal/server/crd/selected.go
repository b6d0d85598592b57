package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/transport"

	"github.com/tenantry/tenantry/internal/tenant"
)

// selected is how a server sees definitions: those that it serves.
type selected struct {
	next http.RoundTripper
	// selector is by labels.
	selector string
	// readOnly is true for definitions whose status is what another server makes of it.
	// Upstream's controllers take a conflict for a sign to wait for what others write.
	readOnly bool
}

// selectedFor wraps requests of the server of n: the space's own definitions or, for the
// system space, the published ones.
func selectedFor(n tenant.Name) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		if n == tenant.System {
			return selected{next: next, selector: tenant.PublishedDefinitionLabel, readOnly: true}
		}
		return selected{next: next, selector: "!" + tenant.PublishedCopyLabel}
	}
}

// RoundTrip implements http.RoundTripper.
func (v selected) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.Method == http.MethodGet:
		req = req.Clone(req.Context())
		query := req.URL.Query()
		query.Set("labelSelector", v.selector)
		req.URL.RawQuery = query.Encode()
	case v.readOnly:
		return refuseWrite(req)
	}
	return v.next.RoundTrip(req)
}

func refuseWrite(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
	status := apierrors.NewConflict(definitions.GroupResource(), "", fmt.Errorf("the server of the system space writes it")).Status()
	status.APIVersion, status.Kind = "v1", "Status"
	body, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(int(status.Code)), StatusCode: int(status.Code),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}
