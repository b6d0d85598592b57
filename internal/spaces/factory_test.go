package spaces

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestForResource compares the factory's resources with those of client-go's own.
func TestForResource(t *testing.T) {
	own, err := NewInformerFactory(&rest.Config{Host: "https://127.0.0.1:1"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	upstream := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	compared := 0
	for kind := range scheme.Scheme.AllKnownTypes() {
		resource := resourceOf(kind)
		if _, err := upstream.ForResource(resource); err != nil {
			continue
		}
		informer, err := own.ForResource(resource)
		if err != nil {
			t.Errorf("ForResource(%v): %v", resource, err)
			continue
		}
		obj, _ := scheme.Scheme.New(kind)
		if informer.Informer() != own.InformerFor(obj, nil) {
			t.Errorf("ForResource(%v) is not the informer of %v", resource, kind)
		}
		compared++
	}
	if compared < 50 {
		t.Errorf("compared only %d resources", compared)
	}
}

// fakeServer answers lists and watches of namespaces and config maps of every
// space, as JSON.
type fakeServer struct {
	objects map[string][]any // by path
	events  map[string]chan any
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if req.URL.Query().Get("watch") == "" {
		answer(w, map[string]any{
			"kind": "NamespaceList", "apiVersion": "v1",
			"metadata": map[string]any{"resourceVersion": "1"},
			"items":    s.objects[req.URL.EscapedPath()],
		})
		return
	}
	if req.URL.Query().Get("sendInitialEvents") != "" {
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer(w, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
		return
	}
	w.(http.Flusher).Flush()
	for {
		select {
		case <-req.Context().Done():
			return
		case event := <-s.events[req.URL.EscapedPath()]:
			answer(w, event)
			w.(http.Flusher).Flush()
		}
	}
}

func namespaceOf(owner, name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
		ObjectMeta: objectMeta(owner, "", name),
	}
}

func objectMeta(owner, namespace, name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}
	if owner != "" {
		meta.Annotations = map[string]string{tenant.Annotation: owner}
	}
	return meta
}

func TestInformers(t *testing.T) {
	const path = "/tenants/*/api/v1/namespaces"
	server := &fakeServer{
		objects: map[string][]any{path: {namespaceOf("", "default"), namespaceOf("a", "default"), namespaceOf("b", "default")}},
		events:  map[string]chan any{path: make(chan any)},
	}
	s := httptest.NewServer(server)
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	factory, err := NewInformerFactory(&rest.Config{Host: s.URL}, 0)
	if err != nil {
		t.Fatal(err)
	}
	namespaces := factory.Core().V1().Namespaces()
	seen := make(chan string, 10)
	_, err = namespaces.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { seen <- "add " + obj.(*corev1.Namespace).Name },
		DeleteFunc: func(obj any) { seen <- "delete " + obj.(*corev1.Namespace).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		t.Fatal(err)
	}
	list, err := namespaces.Lister().List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, namespace := range list {
		got[namespace.Name] = true
		if namespace.ManagedFields != nil || namespace.Annotations != nil {
			t.Errorf("namespace %q is not trimmed: %v", namespace.Name, namespace.ObjectMeta)
		}
	}
	if diff := cmp.Diff(map[string]bool{"default": true, "a|default": true, "b|default": true}, got); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	for range 3 {
		<-seen
	}
	server.events[path] <- map[string]any{"type": watch.Deleted, "object": namespaceOf("a", "default")}
	if got := <-seen; got != "delete a|default" {
		t.Errorf("event %q, want the deletion of a|default", got)
	}
	cancel()
	factory.Shutdown()
}

func answer(w http.ResponseWriter, object any) {
	if err := json.NewEncoder(w).Encode(object); err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
}
