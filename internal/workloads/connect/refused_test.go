package connect

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
)

// TestRefused checks what a tenant is told when the host does not begin a stream or a log: no names and addresses of
// the host, and what the kubelet says of the pod.
func TestRefused(t *testing.T) {
	asStatus := func(status metav1.Status) string {
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		body, _ := json.Marshal(status)
		return string(body)
	}
	for name, tc := range map[string]struct {
		code int
		body string
		// told and exec are what a client of a stream reads, and log is the error of one that asks for the log.
		told      int
		exec, log string
	}{
		"a container that waits": {
			code: 400, body: asStatus(metav1.Status{Code: 400, Reason: metav1.StatusReasonBadRequest, Message: `container "tn-debugger" in pod "web-0" is waiting to start`}),
			told: 400, exec: `"message":"container \"debugger\" in pod \"web-0\" is waiting to start","reason":"BadRequest"`, log: `container "debugger" in pod "web-0" is waiting to start`,
		},
		"a node that does not answer": {
			code: 500, body: asStatus(metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError, Message: `Get "https://192.0.2.1:10250/containerLogs/` + shop.Host() + `/web-0/c": dial tcp 192.0.2.1:10250: connect: connection refused`}),
			told: 503, exec: "the host cluster could not connect to the node that runs pod web-0", log: "the host cluster could not connect to the node that runs pod web-0",
		},
		"rights that are missing": {
			code: 403, body: asStatus(metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `User "system:serviceaccount:tenantry:connect" cannot create resource "pods/exec" in the namespace "` + shop.Host() + `"`}),
			told: 503, exec: "the host cluster could not connect", log: "the host cluster could not connect",
		},
		"a node that is gone": {
			code: 404, body: asStatus(metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Kind: "nodes", Name: "n1"}, Message: `nodes "n1" not found`}),
			told: 503, exec: "the host cluster could not connect", log: "the host cluster could not connect",
		},
		"a pod that has gone": {
			code: 404, body: asStatus(metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{Kind: "pods", Name: "web-0"}, Message: `pods "web-0" not found`}),
			told: 409, exec: "it is not on the host cluster now", log: "it is not on the host cluster now",
		},
		"too many requests": {
			code: 429, body: asStatus(metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests, Message: "APF of the host"}),
			told: 429, exec: "has too much to do", log: "has too much to do",
		},
		"a kubelet": {
			code: 500, body: `container not found in web-0_` + shop.Host() + ` ("tn-debugger")`,
			told: 500, exec: `container not found in web-0_shop ("debugger")`, log: `Internal error occurred: container not found in web-0_shop ("debugger")`,
		},
		"a long answer": {
			code: 500, body: strings.Repeat("x", 2*maxRefusal),
			told: 500, exec: strings.Repeat("x", 100), log: strings.Repeat("x", 100),
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := forged()
			pod.Spec.EphemeralContainers = []core.EphemeralContainer{{EphemeralContainerCommon: core.EphemeralContainerCommon{Name: "debugger"}}}
			c := newCluster(t)
			c.refuse = func(w http.ResponseWriter) {
				w.WriteHeader(tc.code)
				fmt.Fprint(w, tc.body)
			}
			storages, config := storagesOf(pod), c.config()
			config.Streams = 2 // the first one ends after its client has the answer
			if _, err := Wrap(storages, config, authorizer.AuthorizerFunc(nil)); err != nil {
				t.Fatal(err)
			}
			code, body := execOf(t, storages)
			if code != tc.told || !strings.Contains(body, tc.exec) {
				t.Errorf("exec: %d, %s", code, body)
			}
			got, err := storages["pods/log"].(rest.GetterWithOptions).Get(inShop(t, "get"), "web-0", &core.PodLogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, _, _, err = got.(rest.ResourceStreamer).InputStream(inShop(t, "get"), "", "")
			if err == nil || !strings.Contains(err.Error(), tc.log) {
				t.Errorf("log: %v", err)
			}
			for _, said := range []string{body, fmt.Sprint(err)} {
				for _, secret := range []string{shop.Host(), "192.0.2.1", "serviceaccount", "n1"} {
					if strings.Contains(said, secret) {
						t.Errorf("it says %q: %s", secret, said)
					}
				}
			}
		})
	}
}

// execOf asks for a stream, and returns the answer.
func execOf(t *testing.T, storages map[string]rest.Storage) (int, string) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		handler, err := storages["pods/exec"].(rest.Connecter).Connect(inShop(t, "create"), "web-0", &core.PodExecOptions{}, responder{t})
		if err != nil {
			t.Error(err)
			return
		}
		handler.ServeHTTP(w, req.WithContext(inShop(t, "create")))
	}))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	response, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(body)
}

// TestUnreachable checks that the host's address is not in what is told of a connection to it.
func TestUnreachable(t *testing.T) {
	c := newCluster(t)
	storages := storagesOf(forged())
	if _, err := Wrap(storages, c.config(), authorizer.AuthorizerFunc(nil)); err != nil {
		t.Fatal(err)
	}
	c.refuse = func(w http.ResponseWriter) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}
	told := make(chan error, 1)
	handler, err := storages["pods/exec"].(rest.Connecter).Connect(inShop(t, "create"), "web-0", &core.PodExecOptions{}, errorsTo(told))
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(inShop(t, "create"), http.MethodPost, "/", http.NoBody)
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	handler.ServeHTTP(httptest.NewRecorder(), req)
	if err := <-told; err.Error() != errHostAway.Error() {
		t.Errorf("exec: %v", err)
	}
	got, err := storages["pods/log"].(rest.GetterWithOptions).Get(inShop(t, "get"), "web-0", &core.PodLogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := got.(rest.ResourceStreamer).InputStream(inShop(t, "get"), "", ""); err == nil || err.Error() != errHostAway.Error() {
		t.Errorf("log: %v", err)
	}
}

type errorsTo chan error

// Object implements rest.Responder.
func (errorsTo) Object(int, runtime.Object) {}

// Error implements rest.Responder.
func (e errorsTo) Error(err error) { e <- err }

// TestCloseBeforeRead checks that a stream ends whose client does not read.
func TestCloseBeforeRead(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	conn := &answering{Conn: ours}
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n"))
		wrote <- err
	}()
	if _, err := theirs.Read(make([]byte, 1)); err != nil { // it has begun to write
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := <-wrote; err == nil {
		t.Error("all is written")
	}
}
