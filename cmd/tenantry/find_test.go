package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestSearched checks that users see why a search is refused.
func TestSearched(t *testing.T) {
	var answer error
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		responsewriters.ErrorNegotiated(answer, scheme.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	const hint = "run with --search"
	for want, err := range map[string]error{
		"q: it has no value":               apierrors.NewBadRequest("q: it has no value"),
		`tenants "nobody" not found`:       apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, "nobody"),
		hint:                               apierrors.NewNotFound(schema.GroupResource{Resource: "search"}, ""),
		"the space is suspended: not paid": apierrors.NewForbidden(schema.GroupResource{Resource: "tenants"}, "acme", errString("the space is suspended: not paid")),
	} {
		answer = err
		if _, err := searched(client.CoreV1().RESTClient().Get().AbsPath("/search").Do(t.Context())); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), hint) != (want == hint) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestLimit checks that users see that there is more than what is shown.
func TestLimit(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"items": [{"name": "a"}], "count": 2, "continue": "next"}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := api.NewConfig()
	config.Clusters["a"], config.Contexts["a"], config.CurrentContext = &api.Cluster{Server: server.URL}, &api.Context{Cluster: "a"}, "a"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	var out, messages strings.Builder
	if err := (findFlags{kubeconfig: file, limit: 1, output: "name"}).run(t.Context(), "a", &out, &messages); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(messages.String(), "only the first 1 objects are shown") {
		t.Errorf("out %q, messages %q", out.String(), messages.String())
	}
}

// TestNegative checks that flags that mean nothing are refused.
func TestNegative(t *testing.T) {
	for want, o := range map[string]findFlags{"--limit is -1": {limit: -1}, "--min-revision is -1": {minRevision: -1}} {
		if err := o.run(t.Context(), "a", io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

type errString string

func (e errString) Error() string { return string(e) }
