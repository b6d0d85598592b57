package view

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

func class(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

func newViews(t *testing.T, objects ...runtime.Object) (*Views, informers.SharedInformerFactory, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	flat := informers.NewSharedInformerFactory(client, 0)
	return New(flat), flat, client
}

func start(t *testing.T, flat informers.SharedInformerFactory) {
	t.Helper()
	flat.Start(t.Context().Done())
	flat.WaitForCacheSync(t.Context().Done())
}

func TestListers(t *testing.T) {
	for name, indexed := range map[string]bool{"with an index": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			views, flat, _ := newViews(t, class("a|high", 1), class("a|low", 2), class("b|high", 3), class("high", 4))
			views.AddBuiltin(class("highest", 5), class("low", 6))
			informer := flat.Scheduling().V1().PriorityClasses().Informer()
			if indexed {
				if err := views.Index(informer); err != nil {
					t.Fatal(err)
				}
			}
			start(t, flat)
			for n, want := range map[tenant.Name]map[string]int32{
				"a": {"high": 1, "low": 2}, "b": {"high": 3}, "c": {}, tenant.System: {"high": 4},
			} {
				lister := views.Of(n).Scheduling().V1().PriorityClasses().Lister()
				classes, err := lister.List(labels.Everything())
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]int32{}
				for _, class := range classes {
					got[class.Name] = class.Value
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("list in %q: %s", n, diff)
				}
				for name, value := range want {
					class, err := lister.Get(name)
					if err != nil || class.Name != name || class.Value != value {
						t.Errorf("get %s in %q: %v, %v", name, n, class, err)
					}
				}
				if _, err := lister.Get("highest"); apierrors.IsNotFound(err) != (n == tenant.System) {
					t.Errorf("get a built-in class in %q: %v", n, err)
				}
				for _, foreign := range []string{"a|high", "b|high", "|high"} {
					if class, err := lister.Get(foreign); !apierrors.IsNotFound(err) {
						t.Errorf("get %q in %q: %v, %v", foreign, n, class, err)
					}
				}
			}
			shared, exists, err := informer.GetIndexer().GetByKey("a|high")
			if err != nil || !exists || shared.(*schedulingv1.PriorityClass).Name != "a|high" {
				t.Errorf("the shared object was changed: %v, %v", shared, err)
			}
		})
	}
}

func TestNamespacedLister(t *testing.T) {
	secret := func(namespace string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}
	}
	views, flat, _ := newViews(t, secret("a|x"), secret("b|x"), secret("x"), secret("a|y"))
	flat.Core().V1().Secrets().Informer()
	start(t, flat)
	for n, want := range map[tenant.Name][]string{"a": {"x/s", "y/s"}, "b": {"x/s"}, tenant.System: {"x/s"}} {
		lister := views.Of(n).Core().V1().Secrets().Lister()
		secrets, err := lister.List(labels.Everything())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, secret := range secrets {
			got = append(got, secret.Namespace+"/"+secret.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list in %q: %s", n, diff)
		}
		inX, err := lister.Secrets("x").List(labels.Everything())
		if err != nil || len(inX) != 1 || inX[0].Namespace != "x" {
			t.Errorf("list of a namespace in %q: %v, %v", n, inX, err)
		}
		if _, err := lister.Secrets("x").Get("s"); err != nil {
			t.Errorf("get in %q: %v", n, err)
		}
	}
}

// recorder notes what a handler is told.
type recorder struct {
	mu   sync.Mutex
	seen []string
	told chan struct{}
}

func (e *recorder) handler() cache.ResourceEventHandler {
	note := func(what string, obj any) {
		e.mu.Lock()
		e.seen = append(e.seen, fmt.Sprintf("%s %s", what, obj.(metav1.Object).GetName()))
		e.mu.Unlock()
		e.told <- struct{}{}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note("add", obj) },
		UpdateFunc: func(_, obj any) { note("update", obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	}
}

func TestHub(t *testing.T) {
	hook := func(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	views, flat, client := newViews(t, hook("a|first"), hook("b|first"))
	hub, err := views.Hub(flat.Admissionregistration().V1().ValidatingWebhookConfigurations().Informer())
	if err != nil {
		t.Fatal(err)
	}
	emptied := make(chan tenant.Name, 10)
	hub.OnEmpty(func(n tenant.Name) { emptied <- n })
	start(t, flat)
	if !cache.WaitForCacheSync(t.Context().Done(), hub.HasSynced) {
		t.Fatal("the hub does not sync")
	}
	for n, want := range map[tenant.Name]bool{"a": true, "b": true, "c": false, tenant.System: false} {
		if got := hub.Has(n); got != want {
			t.Errorf("Has(%q) = %v, want %v", n, got, want)
		}
	}

	seen := &recorder{told: make(chan struct{}, 10)}
	informer := views.Of("a").Admissionregistration().V1().ValidatingWebhookConfigurations().Informer()
	if _, err := informer.AddEventHandler(seen.handler()); err != nil {
		t.Fatal(err)
	}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), hook("b|second"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := configurations.Create(t.Context(), hook("a|second"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a|first", "a|second"} {
		if err := configurations.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := <-emptied; n != "a" {
		t.Errorf("space %q was reported empty, want a", n)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if diff := cmp.Diff([]string{"add first", "add second", "delete first", "delete second"}, seen.seen); diff != "" {
		t.Error(diff)
	}
	if hub.Has("a") || !hub.Has("b") {
		t.Errorf("Has(a) = %v, Has(b) = %v after a's last object is gone", hub.Has("a"), hub.Has("b"))
	}
	if _, kept := hub.spaces["a"]; kept {
		t.Error("the hub keeps the state of an empty space")
	}
}

func TestRemoveEventHandler(t *testing.T) {
	views, flat, _ := newViews(t)
	hub, err := views.Hub(flat.Scheduling().V1().PriorityClasses().Informer())
	if err != nil {
		t.Fatal(err)
	}
	informer := views.Of("a").Scheduling().V1().PriorityClasses().Informer()
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	if err != nil {
		t.Fatal(err)
	}
	if err := informer.RemoveEventHandler(handle); err != nil {
		t.Fatal(err)
	}
	if len(hub.spaces) != 0 {
		t.Errorf("the hub keeps %d spaces", len(hub.spaces))
	}
	if _, err := views.Of("a").Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{}); err == nil {
		t.Error("a handler without a hub was accepted")
	}
}

func TestPlainError(t *testing.T) {
	resource := schema.GroupResource{Resource: "namespaces"}
	for name, tc := range map[string]struct {
		err  error
		n    tenant.Name
		want string
	}{
		"API error":       {apierrors.NewNotFound(resource, "a|x"), "a", `namespaces "x" not found`},
		"any error":       {fmt.Errorf("getting a|x: %w", apierrors.NewNotFound(resource, "a|x")), "a", `getting x: namespaces "x" not found`},
		"without names":   {fmt.Errorf("broken"), "a", "broken"},
		"system space":    {apierrors.NewNotFound(resource, "x"), tenant.System, `namespaces "x" not found`},
		"another's names": {fmt.Errorf("b|x"), "a", "b|x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := PlainError(tc.err, tc.n)
			if diff := cmp.Diff(tc.want, got.Error()); diff != "" {
				t.Error(diff)
			}
			if status := apierrors.APIStatus(nil); errors.As(got, &status) {
				if diff := cmp.Diff("x", status.Status().Details.Name); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if got := PlainError(nil, "a"); got != nil {
		t.Errorf("got %v for no error", got)
	}
}
