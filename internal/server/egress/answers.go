package egress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// maxAnswer is how many bytes of a response are read beside those that the size of the
	// request allows. An admission webhook responds with a patch that makes an object of at
	// most 3 MiB, base64-encoded. Upstream has no limit.
	maxAnswer = 8 << 20
	// growth is how many bytes of a response are read for each byte of the request: a
	// conversion request has all objects of a list, and so has its response.
	growth = 4
	// maxText is how much is kept of the text of an error, or of a refusal, and maxResult what an answer may say beside
	// a patch or objects, in bytes: they get into logs, events and conditions.
	maxText, maxResult = 4 << 10, 64 << 10
)

var (
	errRedirect = errors.New("the webhook answers with a redirect, and none is followed")
	errProtocol = errors.New("the webhook answers in another protocol")
	errNotJSON  = errors.New("the webhook answers with what is no JSON object, and nothing else is read")
	errTooLarge = fmt.Errorf("the webhook answers with more than %d bytes and %d for each byte that it is asked or, of a conversion, %d for each object and %d for each byte",
		maxAnswer, growth, objectBytes, byteFactor)
)

// answers limits the responses of a tenant's webhook: their size, and no redirects. The
// client would follow a redirect to any server, without TLS, and show the response to the
// tenant.
type answers struct {
	http.RoundTripper
	of tenant.Name
	// exceeded is Options.Exceeded.
	exceeded func(tenant.Name) bool
}

// usualAnswer is how many bytes of an answer are read at any time. Of answers with more, few of a tenant are read at
// once.
const usualAnswer, maxLargeAnswers = 64 << 10, 4

// largeAnswers are the turns of tenants whose webhooks give long answers.
var largeAnswers = keyed.Turns[tenant.Name]{Each: maxLargeAnswers}

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	defer callEnded(req.Context())
	response, err := a.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode / 100 {
	case 2:
	case 1:
		return nil, errProtocol // its body never ends
	case 3:
		return nil, errRedirect
	default:
		// Upstream would look for an object in the text, in any format: a short one in YAML can become a
		// very long one.
		text, err := io.ReadAll(io.LimitReader(response.Body, maxText))
		return nil, errors.Join(fmt.Errorf("the webhook answers with the HTTP status %d: %q", response.StatusCode, text), err)
	}
	body, err := a.read(req, response.Body)
	if err != nil {
		return nil, err
	}
	// Upstream reads YAML and protobuf, too, by what the body begins with and whatever the
	// header says. It reads nothing in no body.
	if len(body) > 0 && !yaml.IsJSONBuffer(body) {
		return nil, errNotJSON
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// read reads an answer that is not too large, and makes nothing too large.
func (a answers) read(req *http.Request, answer io.ReadCloser) ([]byte, error) {
	conversion, err := conversionOf(req)
	if err != nil {
		return nil, err
	}
	most := maxAnswer + growth*max(0, req.ContentLength)
	if conversion != nil {
		most = conversion.most()
	}
	limited := &roundtrip.Bounded{ReadCloser: answer, Left: most, TooLarge: func() error { return errTooLarge }}
	body, err := io.ReadAll(io.LimitReader(limited, usualAnswer))
	if err == nil && len(body) == usualAnswer {
		ctx, cancel := context.WithTimeout(req.Context(), cmp.Or(CallTimeout(req.Context()), dialTimeout))
		defer cancel()
		release, err := largeAnswers.Take(ctx, a.of)
		if err != nil {
			return nil, err
		}
		defer release()
		rest, err := io.ReadAll(limited)
		if err != nil {
			return nil, err
		}
		body = append(body, rest...)
	}
	switch {
	case err != nil:
		return nil, err
	case conversion != nil:
		grown, err := conversion.check(body)
		if err == nil {
			err = a.grows(grown)
		}
		return body, err
	default:
		return checkReview(req, body)
	}
}
