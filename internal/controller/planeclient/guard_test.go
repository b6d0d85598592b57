package planeclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/controlplane"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/roundtrip"
)

// clientOf returns one to a server that answers in the place of own/a, as the operator has it.
func clientOf(t *testing.T, server http.HandlerFunc) (*http.Client, string) {
	t.Helper()
	authority, err := pki.NewAuthority("server-ca")
	if err != nil {
		t.Fatal(err)
	}
	users, err := pki.NewAuthority("system-ca")
	if err != nil {
		t.Fatal(err)
	}
	certPEM, key, err := authority.Issue(pki.ServingTemplate("127.0.0.1", "a.own.svc"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, key)
	if err != nil {
		t.Fatal(err)
	}
	serving := httptest.NewUnstartedServer(server)
	serving.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	serving.StartTLS()
	t.Cleanup(serving.Close)
	cp := &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: "a"}}
	cp.Status.Endpoint = serving.URL
	access := controlplane.Access{System: &pki.PKI{ServerCA: authority, ClientCA: users}, ServerName: "a.own.svc"}
	config, err := Config(cp, access, true, "operator")
	if err != nil {
		t.Fatal(err)
	}
	made, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return made, serving.URL
}

// TestFormatsOfAnswers checks that a server cannot answer in a format in which little becomes much.
func TestFormatsOfAnswers(t *testing.T) {
	for contentType, read := range map[string]bool{
		"": true, "application/json": true, "application/json;stream=watch": true, "text/plain; charset=utf-8": true,
		"application/vnd.kubernetes.protobuf": true, "application/vnd.kubernetes.protobuf;stream=watch": true,
		"application/yaml": false, "Application/YAML; a=b": false, "application/cbor": false, "application/json, application/yaml": false, "/": false,
	} {
		c, address := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{contentType}
			w.WriteHeader(http.StatusInternalServerError)
		})
		response, err := c.Get(address + "/tenants")
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != read || err != nil && !strings.Contains(err.Error(), "content type") {
			t.Errorf("%q: got %v", contentType, err)
		}
	}
}

// TestRedirectsAreNotFollowed checks that a server cannot send the operator elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	for code := 300; code <= 308; code++ {
		c, address := clientOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(code)
		})
		for _, query := range []string{"", "?watch=true"} {
			response, err := c.Post(address+"/tenants"+query, "application/json", strings.NewReader("{}"))
			if err == nil {
				response.Body.Close()
				t.Errorf("%d is answered with %s", code, response.Status)
				continue
			}
			if want := fmt.Sprintf(`ControlPlane "own/a" answers with %d`, code); !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
			if !IsUnreachable(err) {
				t.Errorf("%v is an answer", err)
			}
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("another server was asked %d times", n)
	}
}

// TestAnswersAreBounded checks how much of an answer is read. Watches go on.
func TestAnswersAreBounded(t *testing.T) {
	c, address := clientOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
		}
		chunk := append(bytes.Repeat([]byte(" "), 1<<20-2), '{', '}') // each an event of a watch
		for range answerBytes >> 20 {
			_, _ = w.Write(chunk)
		}
		switch r.URL.Path {
		case "/just-fits":
		case "/large-event":
			_, _ = w.Write(append(bytes.Repeat([]byte(" "), tenantBytes), '{', '}'))
		default:
			_, _ = w.Write([]byte(" "))
		}
	})
	const whole = "64 MiB"
	for path, most := range map[string]string{
		"/just-fits": "", "/list": whole, "/list?watch=false": whole, "/refused?watch=true": whole, "/watch?watch=true": "", "/watch?watch=1": "",
		"/large-event?watch=true": "4 MiB",
	} {
		response, err := c.Get(address + path)
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		switch {
		case most == "" && err != nil:
			t.Errorf("%s: %v", path, err)
		case most != "" && (err == nil || !strings.Contains(err.Error(), `ControlPlane "own/a" answers with more than `+most)):
			t.Errorf("%s: got error %v", path, err)
		case most != "" && read > answerBytes:
			t.Errorf("%s: %d bytes were read", path, read)
		}
	}
}

// TestAnswersEnd checks that neither a list nor the beginning of a watch is waited for without an
// end, and that a watch goes on that has begun.
func TestAnswersEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		query  string
		header time.Duration
		// ends is when the answer is given up, 0 for never.
		ends time.Duration
	}{
		"a list":                      {"", time.Hour, listTimeout},
		"a list that goes on":         {"", 0, listTimeout},
		"a watch":                     {"?watch=true", time.Hour, watchTimeout},
		"a watch that does not begin": {"?watch=true", watchTimeout + time.Second, watchTimeout},
		"a watch that has begun":      {"?watch=true", watchTimeout - time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				g := &guard{of: "own/a", next: roundtrip.Func(func(request *http.Request) (*http.Response, error) {
					header := slow{request.Context(), tc.header}
					if _, err := header.Read(nil); !errors.Is(err, io.EOF) {
						return nil, err
					}
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(slow{request.Context(), 24 * time.Hour})}, nil
				})}
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://x/"+tc.query, nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				response, err := g.RoundTrip(request)
				if err == nil {
					_, err = io.ReadAll(response.Body)
					defer response.Body.Close()
				}
				if want := cmp.Or(tc.ends, time.Hour); err == nil || time.Since(began) != want {
					t.Errorf("it ended after %s with error %v, want %s", time.Since(began), err, want)
				}
			})
		})
	}
}
