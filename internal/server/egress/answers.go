package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxAnswer is how many bytes of an answer are read beside those that the request
	// allows for. A webhook for admission answers with a patch that makes an object of at
	// most 3 MiB, encoded by four bytes for three. Upstream reads to the end, however far
	// that is.
	maxAnswer = 8 << 20
	// growth is how many bytes of an answer are read for each byte of the request: one
	// for conversion has all objects of a list in it, and its answer as many.
	growth = 4
)

var (
	errRedirect = errors.New("the webhook answers with a redirect, and none is followed")
	errTooLarge = fmt.Errorf("the webhook answers with more than %d bytes, and %d for each byte that it is asked", maxAnswer, growth)
)

// answers are what a tenant's webhook may answer with: so much, and no redirect. The
// client would follow one to any server, without TLS, and show the tenant what that says.
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
	response.Body = &bounded{response.Body, maxAnswer + growth*max(0, req.ContentLength)}
	return response, nil
}

// bounded is a body with an error in the place of what goes beyond left bytes.
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
