package hosttenant

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// answerBytes is how large an answer of a server may be that is no watch: 10,000 Tenants of 6 KiB
// each fit.
const answerBytes = 64 << 20

// guard keeps the operator from harm by a server of a ControlPlane that somebody has taken over: no
// answer leads it elsewhere, where the operator's network lets it, and none but a watch goes on
// without an end.
type guard struct {
	next http.RoundTripper
	// of names the ControlPlane.
	of string
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 3 {
		_ = response.Body.Close() // nothing of it is read
		return nil, fmt.Errorf("ControlPlane %q answers with %d: its servers redirect nobody, and no redirect is followed; "+
			"check what answers at its address", g.of, response.StatusCode)
	}
	if !isWatch(request) || response.StatusCode != http.StatusOK { // a refusal of a watch is read at once
		response.Body = &bounded{ReadCloser: response.Body, of: g.of, left: answerBytes}
	}
	return response, nil
}

// isWatch reports whether the answer of a request ends at no certain size.
func isWatch(request *http.Request) bool {
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// bounded is a body that cannot be read any more once it is too large.
type bounded struct {
	io.ReadCloser
	of   string
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("ControlPlane %q answers with more than %d MiB, which is more than the operator reads: "+
			"check what answers at its address", b.of, answerBytes>>20)
	}
	return n, err
}
