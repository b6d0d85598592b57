package kubecontrollers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/spaces"
)

// TestRunElected fails to start the controllers of an elected replica: it must
// give the lease up and say why.
func TestRunElected(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		w.Header().Set("Content-Type", req.Header.Get("Content-Type"))
		_, _ = io.Copy(w, req.Body) // a lease is stored as it was sent
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	factory, err := spaces.NewInformerFactory(config, 0)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	all := controllers
	defer func() { controllers = all }()
	controllers = []builder{{name: "broken", workers: 1, build: func(context.Context, *environment) (func(context.Context), error) { return nil, broken }}}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Run(ctx, Config{ServerConfig: config, Informers: factory, LeaderElection: true}); !errors.Is(err, broken) {
		t.Errorf("Run: %v, want %v", err, broken)
	}
}
