package kubecontrollers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// heard counts the events of a controller's handler.
type heard struct {
	cache.ResourceEventHandlerFuncs
	count int
}

func newHeard() *heard {
	h := &heard{}
	h.UpdateFunc = func(_, _ any) { h.count++ }
	return h
}

// TestTurnsOfServices checks that a tenant whose Services take long waits, that others do not,
// and that the controller hears of the Service again.
func TestTurnsOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		core := f.Core().V1()
		services, pods := core.Services().Informer().GetStore(), core.Pods().Informer().GetStore()
		app := map[string]string{"app": "web"}
		for _, namespace := range []string{"a|ns", "b|ns", "ns"} {
			if err := services.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"},
				Spec: corev1.ServiceSpec{Selector: app, Ports: make([]corev1.ServicePort, 100)}}); err != nil {
				t.Fatal(err)
			}
			for i := range 1_000 {
				if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(i), Labels: app}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		turns := newTurns()
		offered := turns.services(core.Services(), core.Pods().Lister())
		handler := newHeard()
		if _, err := offered.Informer().AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
		get := func(namespace string) error {
			_, err := offered.Lister().Services(namespace).Get("s")
			return err
		}
		taken := 0
		for ; taken < 100 && get("a|ns") == nil; taken++ {
		}
		if taken == 0 || taken > 10 {
			t.Errorf("%d Services of a tenant in a row", taken)
		}
		_ = get("a|ns")
		for _, namespace := range []string{"b|ns", "ns", "ns", "ns", "ns", "ns", "ns", "ns", "ns", "ns", "ns"} {
			if err := get(namespace); err != nil {
				t.Errorf("a Service in %s waits: %v", namespace, err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if handler.count != 1 {
			t.Errorf("the controller hears %d times of the Service", handler.count)
		}
		if err := get("a|ns"); err != nil {
			t.Errorf("after a minute: %v", err)
		}
	})
}

// TestTurnsOfRequests checks that items are charged for their requests, however quick each is.
func TestTurnsOfRequests(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	turns := newTurns()
	budgets, err := newBudgets(f.Policy().V1().PodDisruptionBudgets())
	if err != nil {
		t.Fatal(err)
	}
	inTurn, autoscalers := turns.budgets(budgets), turns.autoscalers(f.Autoscaling().V2().HorizontalPodAutoscalers())
	meta := metav1.ObjectMeta{Namespace: "a|ns", Name: "x"}
	if err := f.Policy().V1().PodDisruptionBudgets().Informer().GetStore().Add(&policyv1.PodDisruptionBudget{ObjectMeta: meta}); err != nil {
		t.Fatal(err)
	}
	if err := f.Autoscaling().V2().HorizontalPodAutoscalers().Informer().GetStore().Add(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta}); err != nil {
		t.Fatal(err)
	}
	get := func() [2]bool {
		_, err := inTurn.Lister().PodDisruptionBudgets("a|ns").Get("x")
		_, other := autoscalers.Lister().HorizontalPodAutoscalers("a|ns").Get("x")
		return [2]bool{err == nil, other == nil}
	}
	if got := get(); got != [2]bool{true, true} {
		t.Errorf("got %v at first", got)
	}
	for range 10_000 {
		turns.charge("a", time.Millisecond)
	}
	if got := get(); got != [2]bool{false, false} {
		t.Errorf("got %v after requests of ten seconds", got)
	}
}
