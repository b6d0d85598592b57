package connect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericrest "k8s.io/apiserver/pkg/registry/generic/rest"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// maxRefusal is how many bytes are read of an answer with which the host refuses a connection.
const maxRefusal = 50 << 10

// refusals are what a client is told of the answers with which the host refuses connections to one pod.
type refusals struct {
	pod string
	// plain puts the names of the space in the place of the host's.
	plain *strings.Replacer
	// upstream is for answers of kubelets.
	upstream genericrest.HttpResponseChecker
}

func refusalsOf(home names.Namespace, pod *core.Pod) refusals {
	pairs := []string{home.Host(), home.Name}
	for c := range podutil.ContainerIter(&pod.Spec, podutil.EphemeralContainers) {
		pairs = append(pairs, names.Debugger(c.Name), c.Name)
	}
	return refusals{pod.Name, strings.NewReplacer(pairs...), genericrest.NewGenericHttpResponseChecker(core.Resource("pods/log"), pod.Name)}
}

// status returns what is told of an answer of the host's API server, and nil if it is one of a kubelet, which speaks of
// the pod alone. The server names addresses of nodes, and the rights that it wants: of its answers those go on that are
// about the request.
func (r refusals) status(body []byte) *apierrors.StatusError {
	said := metav1.Status{}
	if err := json.Unmarshal(body, &said); err != nil || said.Kind != "Status" {
		return nil
	}
	switch {
	case said.Code == http.StatusBadRequest:
		return apierrors.NewBadRequest(r.plain.Replace(said.Message))
	case said.Code == http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests("the host cluster, which runs the pods, has too much to do", 1)
	case said.Code == http.StatusNotFound && said.Details != nil && said.Details.Kind == "pods":
		return notThere(r.pod)
	}
	return apierrors.NewServiceUnavailable("the host cluster could not connect to the node that runs pod " + r.pod)
}

// Check implements genericrest.HttpResponseChecker.
func (r refusals) Check(response *http.Response) error {
	if response.StatusCode < http.StatusBadRequest {
		return r.upstream.Check(response)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if status := r.status(body); status != nil {
		return status
	}
	response.Body = io.NopCloser(strings.NewReader(r.plain.Replace(string(body))))
	return r.upstream.Check(response)
}

// answering is the connection of a client that is to become a stream. An answer by which it does not is kept until it
// is whole, and written as the client may read it.
type answering struct {
	net.Conn
	refusals refusals

	mu      sync.Mutex
	began   bool
	refused *bytes.Buffer
	// told is whether the client has been told of the answer: what comes after it is dropped.
	told bool
}

// Write implements net.Conn. It holds no lock while the client reads: Close ends it.
func (a *answering) Write(p []byte) (int, error) {
	if a.keep(p) {
		return len(p), nil
	}
	return a.Conn.Write(p)
}

// keep reports whether something is part of an answer that is no stream, and keeps that.
func (a *answering) keep(p []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.began {
		a.began = true
		if _, status, _ := strings.Cut(string(p[:min(len(p), len("HTTP/1.1 101 "))]), " "); !strings.HasPrefix(status, "101 ") {
			a.refused = &bytes.Buffer{}
		}
	}
	if a.refused == nil {
		return a.told
	}
	if room := maxRefusal - a.refused.Len(); room > 0 {
		a.refused.Write(p[:min(len(p), room)])
	}
	return true
}

// Close implements net.Conn.
func (a *answering) Close() error {
	a.mu.Lock()
	refused := a.refused
	a.refused, a.told = nil, a.told || refused != nil
	a.mu.Unlock()
	if refused != nil {
		told := a.refusals.rewrite(refused)
		_ = told.Write(a.Conn) // the client may have gone
		told.Body.Close()
	}
	return a.Conn.Close()
}

// rewrite returns what is told of an answer of the host that is no stream.
func (r refusals) rewrite(answer io.Reader) *http.Response {
	told := &http.Response{StatusCode: http.StatusServiceUnavailable, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Close: true}
	var body []byte
	if response, err := http.ReadResponse(bufio.NewReader(answer), nil); err == nil {
		body, _ = io.ReadAll(response.Body) // what is cut is no Status
		response.Body.Close()
		told.StatusCode = response.StatusCode
	}
	if status := r.status(body); status != nil {
		said := status.Status()
		said.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		body, _ = json.Marshal(said)
		told.StatusCode = int(said.Code)
		told.Header.Set("Content-Type", runtime.ContentTypeJSON)
	} else {
		body = []byte(r.plain.Replace(string(body)))
		told.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	told.Body, told.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return told
}
