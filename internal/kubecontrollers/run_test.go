package kubecontrollers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/election"
	"github.com/tenantry/tenantry/internal/spaces"
)

// fakeServer has what is needed before there are controllers.
type fakeServer struct {
	Server
	config    *rest.Config
	informers *spaces.Factory
}

func (s fakeServer) LoopbackConfig() *rest.Config { return s.config }
func (s fakeServer) Informers() *spaces.Factory   { return s.informers }

// refusing has lost its lease.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, election.ErrLost }

// TestNothingIsDiscovered loses the lease while controllers are built. Upstream's controller of namespaces ends the
// process if no resource is known to it then; later it must know that it does not know all.
func TestNothingIsDiscovered(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1", Transport: refusing{}}
	e, err := newShared(fakeServer{config: config}, informers.NewSharedInformerFactory(fake.NewClientset(), 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	resources := e.namespacedResources()
	if found, err := resources(); err != nil || len(found) != 1 || len(found[0].APIResources) > 0 {
		t.Errorf("while controllers are built: %v, %v", found, err)
	}
	close(e.started)
	if found, err := resources(); err == nil || len(found) > 0 {
		t.Errorf("when they run: %v, %v", found, err)
	}
}

// TestRunElected fails to start the controllers of an elected replica: it must go on, and try again.
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
	tried := 0
	all := controllers
	defer func() { controllers = all }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	controllers = []builder{{name: "broken", workers: 1, build: func(context.Context, *environment) (runner, error) {
		if tried++; tried == 2 {
			cancel()
		}
		return nil, errors.New("broken")
	}}}
	if err := RunElected(ctx, fakeServer{config: config, informers: factory}, election.Timing{RetryPeriod: 10 * time.Millisecond}); err != nil || tried != 2 {
		t.Errorf("RunElected: %v, and tried %d times", err, tried)
	}
}
