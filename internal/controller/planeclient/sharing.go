package planeclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/process/shares"
)

// tenantBytes is how large an answer about one object may be: etcd stores no larger ones.
const tenantBytes = 4 << 20

// ErrBusy ends what is beyond the share of a ControlPlane.
var ErrBusy = errors.New("enough workers wait for its servers")

// Shares are the shares of ControlPlanes in the workers, of which each request keeps one.
type Shares = shares.Shares[types.NamespacedName]

// NewShares returns the shares in so many workers.
func NewShares(workers int) *Shares {
	return shares.New[types.NamespacedName](workers, ErrBusy)
}

// sharing gives a ControlPlane its share of the workers. An answer is read here, so that one that
// comes byte by byte counts.
type sharing struct {
	next   http.RoundTripper
	shares *Shares
	// of names the ControlPlane.
	of types.NamespacedName
}

// RoundTrip implements http.RoundTripper.
func (s *sharing) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, leave, err := s.shares.Enter(request.Context(), s.of, "")
	if err != nil {
		return nil, refuse(request, err)
	}
	defer leave()
	response, err := s.next.RoundTrip(request.WithContext(ctx))
	if err == nil {
		err = readAll(response, s.of.String())
	}
	switch {
	case err == nil:
		return response, nil
	case errors.Is(context.Cause(ctx), ErrBusy):
		return nil, ErrBusy
	default:
		return nil, err
	}
}

// readAll replaces the body of an answer by what can be read of it, once that is checked.
func readAll(response *http.Response, of string) error {
	body := response.Body
	defer body.Close()
	if list, is := body.(*checked); is { // of which more would be read, to check it
		body = list.ReadCloser
	}
	content, err := io.ReadAll(bounded(of, body, tenantBytes))
	if err == nil {
		err = checkAnswer(of, content, ObjectQuantities)
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	return err
}
