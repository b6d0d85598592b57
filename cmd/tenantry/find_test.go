package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// TestSearched checks that users see why a search is refused.
func TestSearched(t *testing.T) {
	var answer error
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		responsewriters.ErrorNegotiated(answer, scheme.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	for want, err := range map[string]error{
		"q: it has no value":               apierrors.NewBadRequest("q: it has no value"),
		"run with --search":                apierrors.NewNotFound(schema.GroupResource{Resource: "search"}, ""),
		"the space is suspended: not paid": apierrors.NewForbidden(schema.GroupResource{Resource: "tenants"}, "acme", errString("the space is suspended: not paid")),
	} {
		answer = err
		if _, err := searched(client.CoreV1().RESTClient().Get().AbsPath("/search").Do(t.Context())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

type errString string

func (e errString) Error() string { return string(e) }
