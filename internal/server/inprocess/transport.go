package inprocess

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// NewTransport returns a transport that serves every request by calling handler,
// and ignores the host.
func NewTransport(handler http.Handler) http.RoundTripper {
	return &transport{handler: handler}
}

type transport struct {
	handler http.Handler
}

var errAborted = errors.New("the server aborted the request")

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	// The handler must not see values of the caller's context, such as the user of
	// another request.
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(req.Context(), cancel)
	e := newExchange(ctx, cancel)
	go func() {
		defer stop()
		t.serve(e, asServed(req, ctx))
	}()
	select {
	case <-e.answered:
	case <-req.Context().Done():
		e.Close()
		return nil, req.Context().Err()
	}
	if e.status == 0 {
		e.Close()
		return nil, errAborted
	}
	return e.response(req), nil
}

// serve calls the handler as net/http does.
func (t *transport) serve(e *exchange, req *http.Request) {
	completed := false
	defer func() {
		req.Body.Close()
		if !completed {
			recover() //nolint:errcheck // the handler chain has reported it
			e.finish(io.ErrUnexpectedEOF)
		}
	}()
	t.handler.ServeHTTP(e, req)
	completed = true
	e.WriteHeader(http.StatusOK)
	e.finish(io.EOF)
}

// asServed turns a client's request into the request that a server would read.
func asServed(req *http.Request, ctx context.Context) *http.Request {
	served := req.Clone(ctx)
	if served.Body == nil {
		served.Body = http.NoBody
	}
	served.RequestURI = req.URL.RequestURI()
	served.Host = cmp.Or(served.Host, req.URL.Host)
	served.URL.Scheme, served.URL.Host, served.URL.User = "", "", nil
	served.RemoteAddr = "127.0.0.1:0"
	served.Proto, served.ProtoMajor, served.ProtoMinor = "HTTP/2.0", 2, 0
	return served
}

// response returns a response with the status and header, and e as its body.
func (e *exchange) response(req *http.Request) *http.Response {
	length := int64(-1)
	if sent, err := strconv.ParseInt(e.sent.Get("Content-Length"), 10, 64); err == nil {
		length = sent
	}
	return &http.Response{
		Status:     strconv.Itoa(e.status) + " " + http.StatusText(e.status),
		StatusCode: e.status,
		Proto:      "HTTP/2.0", ProtoMajor: 2,
		Header:        e.sent,
		Body:          e,
		ContentLength: length,
		Request:       req,
	}
}
