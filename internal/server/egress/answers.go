package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/tidwall/gjson"
)

const (
	// maxAnswer is how many bytes of a response are read beside those that the size of the
	// request allows. An admission webhook responds with a patch that makes an object of at
	// most 3 MiB, base64-encoded. Upstream has no limit.
	maxAnswer = 8 << 20
	// growth is how many bytes of a response are read for each byte of the request: a
	// conversion request has all objects of a list, and so has its response.
	growth = 4
	// maxPatchWork bounds the product of a patch's operations and of the bytes that each may
	// copy. With it the patch takes some seconds.
	maxPatchWork = 8 << 30
)

var (
	errRedirect = errors.New("the webhook answers with a redirect, and none is followed")
	errTooLong  = errors.New("the webhook answers with a patch of too many operations, for its size and that of the object")
	errTooLarge = fmt.Errorf("the webhook answers with more than %d bytes, and %d for each byte that it is asked", maxAnswer, growth)
)

// answers limits the responses of a tenant's webhook: their size, and no redirects. The
// client would follow a redirect to any server, without TLS, and show the response to the
// tenant.
type answers struct{ http.RoundTripper }

func boundAnswers(next http.RoundTripper) http.RoundTripper { return answers{next} }

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(req *http.Request) (*http.Response, error) {
	response, err := a.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		_ = response.Body.Close()
		return nil, errRedirect
	}
	asked := max(0, req.ContentLength)
	body, err := io.ReadAll(&bounded{response.Body, maxAnswer + growth*asked})
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	if workOf(body, asked) > maxPatchWork {
		return nil, errTooLong
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// workOf returns the operations of the patch in an admission review, each of which may copy
// a list as long as the patch and the object of the request.
func workOf(body []byte, asked int64) int64 {
	patch, err := base64.StdEncoding.DecodeString(gjson.GetBytes(body, "response.patch").Str)
	if err != nil {
		return 0 // upstream refuses it
	}
	var operations []json.RawMessage
	if json.Unmarshal(patch, &operations) != nil {
		return 0
	}
	return int64(len(operations)) * (int64(len(patch)) + asked)
}

// bounded is a body that fails beyond left bytes.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
