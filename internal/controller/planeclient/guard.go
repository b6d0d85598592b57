package planeclient

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

const (
	// answerBytes is how large an answer of a server may be that is no watch: 10,000 Tenants of
	// 6 KiB each fit.
	answerBytes = 64 << 20
	// listTimeout is how long it may take, and watchTimeout how long it may take until a watch
	// begins.
	listTimeout, watchTimeout = time.Minute, 30 * time.Second
)

// guard keeps the operator from harm by a server of a ControlPlane that somebody has taken over: no
// answer leads it elsewhere, where the operator's network lets it, none but a watch that has
// begun goes on without an end, and none takes hours to decode.
type guard struct {
	next http.RoundTripper
	// of names the ControlPlane.
	of string
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	watches, limit := isWatch(request), listTimeout
	if watches {
		limit = watchTimeout
	}
	ctx, cancel := context.WithCancel(request.Context())
	ends := time.AfterFunc(limit, cancel)
	response, err := roundtrip.Ending(g.next, request.WithContext(ctx), func() { ends.Stop(); cancel() })
	if err != nil {
		if request.Context().Err() == nil && ctx.Err() != nil {
			return nil, ErrNoAnswer
		}
		return nil, err
	}
	if watches {
		ends.Stop()
	}
	if response.StatusCode/100 == 3 {
		_ = response.Body.Close() // nothing of it is read
		return nil, fmt.Errorf("ControlPlane %q answers with %d: its servers redirect nobody, and no redirect is followed; "+
			"check what answers at its address", g.of, response.StatusCode)
	}
	if header := response.Header.Get("Content-Type"); !isRead(header) {
		_ = response.Body.Close()
		return nil, fmt.Errorf("ControlPlane %q answers with the content type %.100q, and JSON, protobuf and plain text are read: "+
			"check what answers at its address", g.of, header)
	}
	if watches && response.StatusCode == http.StatusOK {
		response.Body = checkedEvents(g.of, response.Body)
	} else { // a refusal of a watch is read at once
		response.Body = &checked{ReadCloser: bounded(g.of, response.Body, answerBytes), of: g.of}
	}
	return response, nil
}

// isRead reports whether an answer has a format in which its size says how much becomes of it. In YAML, some bytes
// can stand for gigabytes, and clients read that, too.
func isRead(contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	return contentType == "" || err == nil &&
		slices.Contains([]string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, "text/plain"}, mediaType)
}

// isWatch reports whether the answer of a request ends at no certain size.
func isWatch(request *http.Request) bool {
	watch, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watch
}

// bounded is a body of an answer that cannot be read any more once it is too large.
func bounded(of string, body io.ReadCloser, most int64) *roundtrip.Bounded {
	return &roundtrip.Bounded{ReadCloser: body, Left: most, TooLarge: func() error {
		return fmt.Errorf("ControlPlane %q answers with more than %d MiB, which is more than the operator reads: "+
			"check what answers at its address", of, most>>20)
	}}
}
