package inprocess

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

func do(t *testing.T, ctx context.Context, body io.Reader, handler http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://server:1/tenants/*/a%2Fb?q=1", body)
	if err != nil {
		t.Fatal(err)
	}
	return (&http.Client{Transport: NewTransport(handler)}).Do(req)
}

type key struct{}

func TestRequest(t *testing.T) {
	ctx := context.WithValue(context.Background(), key{}, "the caller's")
	resp, err := do(t, ctx, strings.NewReader("ping"), func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || string(body) != "ping" {
			t.Errorf("body %q, %v", body, err)
		}
		if req.RequestURI != "/tenants/*/a%2Fb?q=1" || req.URL.Host != "" || req.Host != "server:1" {
			t.Errorf("request to %q, URL %v, host %q", req.RequestURI, req.URL, req.Host)
		}
		if req.Context().Value(key{}) != nil {
			t.Error("the caller's context values reach the handler")
		}
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X", "too late")
		write(t, w, "pong")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "pong" || resp.StatusCode != http.StatusCreated || resp.Header.Get("X") != "y" {
		t.Errorf("got %d, %q, %v, header %v", resp.StatusCode, body, err, resp.Header)
	}
}

func TestEmptyAnswer(t *testing.T) {
	resp, err := do(t, context.Background(), nil, func(_ http.ResponseWriter, req *http.Request) {
		if req.Body == nil {
			t.Error("no body; a server's request has one")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || err != nil || len(body) > 0 {
		t.Errorf("got %d, %q, %v", resp.StatusCode, body, err)
	}
}

func TestStream(t *testing.T) {
	next, gone := make(chan struct{}), make(chan struct{})
	resp, err := do(t, context.Background(), nil, func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush()
		<-next
		write(t, w, "event")
		<-req.Context().Done()
		close(gone)
	})
	if err != nil {
		t.Fatal(err)
	}
	close(next) // the header came before anything was written
	event := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, event); err != nil || string(event) != "event" {
		t.Errorf("read %q, %v", event, err)
	}
	resp.Body.Close()
	<-gone // the handler sees that the reader has gone
	if _, err := resp.Body.Read(event); err == nil {
		t.Error("a closed body can be read")
	}
}

func TestCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	_, err := do(t, ctx, nil, func(w http.ResponseWriter, req *http.Request) {
		cancel()
		<-req.Context().Done()
		close(gone)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	<-gone
}

func TestAbort(t *testing.T) {
	if _, err := do(t, context.Background(), nil, func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}); !errors.Is(err, errAborted) {
		t.Errorf("got error %v", err)
	}
	resp, err := do(t, context.Background(), nil, func(w http.ResponseWriter, _ *http.Request) {
		write(t, w, "half")
		panic(http.ErrAbortHandler)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); string(body) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestSlowReader(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	const chunks = 3 * highWater / (64 << 10)
	done := make(chan struct{})
	resp, err := do(t, context.Background(), nil, func(w http.ResponseWriter, _ *http.Request) {
		defer close(done)
		for range chunks {
			if _, err := w.Write(chunk); err != nil {
				t.Errorf("writing: %v", err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	select {
	case <-done:
		t.Error("the handler did not wait for the reader")
	default:
	}
	if n, err := io.Copy(io.Discard, resp.Body); n != chunks*int64(len(chunk)) || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	<-done
}

func write(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if _, err := io.WriteString(w, s); err != nil {
		t.Error(err)
	}
}
