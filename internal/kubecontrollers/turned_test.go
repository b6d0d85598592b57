package kubecontrollers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// heard counts the events of a controller's handler.
type heard struct {
	cache.ResourceEventHandlerFuncs
	count int
}

func newHeard() *heard {
	h := &heard{}
	h.AddFunc = func(any) { h.count++ }
	return h
}

// worker is that of a controller.
type worker struct {
	workqueue.TypedInterface[string]
}

func newWorker(t *testing.T) worker {
	w := worker{workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "test"})}
	t.Cleanup(w.ShutDown)
	return w
}

// works is for an item that takes some time, unless get says that it is not in turn.
func (w worker) works(took time.Duration, get func() error) error {
	w.Add("item")
	item, _ := w.Get()
	defer w.Done(item)
	if err := get(); err != nil {
		return err
	}
	time.Sleep(took)
	return nil
}

// TestTurnsOfServices checks that a tenant whose Services take long waits, that others do not,
// and that the controller hears of the Service again.
func TestTurnsOfServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		core := f.Core().V1()
		for _, namespace := range []string{"a|ns", "b|ns", "ns"} {
			if err := core.Services().Informer().GetStore().Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}}); err != nil {
				t.Fatal(err)
			}
		}
		turns := newTurns(1)
		offered := turns.services(core.Services())
		handler := newHeard()
		if _, err := offered.Informer().AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
		worker := newWorker(t)
		get := func(namespace string) error {
			return worker.works(time.Second, func() error {
				_, err := offered.Lister().Services(namespace).Get("s")
				return err
			})
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
	turns := newTurns(1)
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
		turns.work("a", time.Millisecond)
	}
	if got := get(); got != [2]bool{false, false} {
		t.Errorf("got %v after requests of ten seconds", got)
	}
}

// TestWorkersAreMeasured checks what a tenant owes for what a worker does, with each kind of informer, and that it
// does not owe the worker's requests as well.
func TestWorkersAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		for _, namespace := range []string{"a|ns", "ns"} {
			for store, obj := range map[cache.Store]any{
				f.Apps().V1().ReplicaSets().Informer().GetStore(): &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}},
				f.Core().V1().Services().Informer().GetStore():    &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}},
			} {
				if err := store.Add(obj); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, get := range map[string]func(t *turns, namespace string) error{
			"open": func(turns *turns, namespace string) error {
				offered, err := newReplicaSets(f.Apps().V1().ReplicaSets(), turns)
				if err != nil {
					t.Fatal(err)
				}
				_, err = offered.Lister().ReplicaSets(namespace).Get("x")
				return err
			},
			"others": func(turns *turns, namespace string) error {
				_, err := turns.services(f.Core().V1().Services()).Lister().Services(namespace).Get("x")
				return err
			},
		} {
			turns := newTurns(1)
			turns.request("a", time.Second) // of a controller that asks for nothing else
			if got := turns.debt("a"); got != turnDivisor*time.Second {
				t.Errorf("%s: owes %v for a request of a worker that is not measured", name, got)
			}
			turns = newTurns(1)
			for _, namespace := range []string{"a|ns", "ns"} {
				if err := newWorker(t).works(time.Second, func() error {
					err := get(turns, namespace)
					turns.request("a", time.Second)
					return err
				}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := turns.debt("a"); got != turnDivisor*time.Second-time.Second { // paid back since then
				t.Errorf("%s: owes %v", name, got)
			}
			if len(turns.until) != 1 {
				t.Errorf("%s: the system owes, too: %v", name, turns.until)
			}
		}
	})
}

// TestParked checks that others wait for few of a tenant's objects, and that all come back in
// order.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		store := f.Policy().V1().PodDisruptionBudgets().Informer().GetStore()
		turns := newTurns(1)
		from, err := newBudgets(f.Policy().V1().PodDisruptionBudgets())
		if err != nil {
			t.Fatal(err)
		}
		budgets := turns.budgets(from)
		var queued []string
		if _, err := budgets.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
			queued = append(queued, obj.(*policyv1.PodDisruptionBudget).Name)
		}}); err != nil {
			t.Fatal(err)
		}
		get := func(name string) error {
			_, err := budgets.Lister().PodDisruptionBudgets("a|ns").Get(name)
			return err
		}
		turns.charge("a", time.Minute)
		for i := range 100 {
			name := fmt.Sprintf("%03d", i)
			if err := store.Add(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: name}}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := get(name); !apierrors.IsNotFound(err) {
					t.Errorf("got %v of a budget that is not in turn", err)
				}
			}
		}
		time.Sleep(maxOwed - maxTurnDebt/2 - time.Second)
		if synctest.Wait(); len(queued) > 0 {
			t.Errorf("%d come too early", len(queued))
		}
		time.Sleep(2 * time.Second)
		if synctest.Wait(); len(queued) < releasedAtOnce || len(queued) > 20*releasedAtOnce {
			t.Errorf("%d come at first", len(queued))
		}
		time.Sleep(time.Minute)
		if synctest.Wait(); len(queued) != 100 || !slices.IsSorted(queued) {
			t.Errorf("%d come: %v", len(queued), queued)
		}
		if err := get("000"); err != nil {
			t.Error(err)
		}
		// The events of its pods wait, too.
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "p"}}
		turns.charge("a", time.Minute)
		if found, err := budgets.Lister().GetPodPodDisruptionBudgets(pod); err == nil {
			t.Errorf("found %v for an event that is not in turn", found)
		}
		queued = nil
		time.Sleep(6 * time.Minute)
		if synctest.Wait(); len(queued) != 100 {
			t.Errorf("%d come after an event", len(queued))
		}
	})
}

// TestTakingTurns checks that a tenant whose items take long waits with each of these controllers, and
// another tenant and the handlers of the controller do not.
func TestTakingTurns(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core, apps := f.Core().V1(), f.Apps().V1()
	add := func(informer cache.SharedIndexInformer, objects ...any) {
		t.Helper()
		for _, obj := range objects {
			if err := informer.GetStore().Add(obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	long := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: metav1.LabelSelectorOpNotIn}}}
	for i := range 100 {
		long.MatchExpressions[0].Values = append(long.MatchExpressions[0].Values, fmt.Sprint(i))
	}
	for i := range 1_000 {
		meta := metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint(i), Labels: map[string]string{"i": fmt.Sprint(i)}}
		add(core.Pods().Informer(), &corev1.Pod{ObjectMeta: meta})
		add(apps.ReplicaSets().Informer(), &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: long}})
	}
	for _, space := range []string{"a|", "b|"} {
		meta := metav1.ObjectMeta{Namespace: space + "ns", Name: "x"}
		add(core.Namespaces().Informer(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space + "ns"}})
		add(core.ResourceQuotas().Informer(), &corev1.ResourceQuota{ObjectMeta: meta})
		add(apps.Deployments().Informer(), &appsv1.Deployment{ObjectMeta: meta})
		add(f.Batch().V1().CronJobs().Informer(), &batchv1.CronJob{ObjectMeta: meta})
	}
	for name, tc := range map[string]struct {
		get func(t *turns) (get func(space string) error, informer cache.SharedIndexInformer)
		// took is how long each is worked on.
		took time.Duration
	}{
		"Namespaces": {func(t *turns) (func(string) error, cache.SharedIndexInformer) {
			offered := t.namespaces(core.Namespaces())
			return func(space string) error { _, err := offered.Lister().Get(space + "ns"); return err }, offered.Informer()
		}, 100 * time.Millisecond},
		"ResourceQuotas": {func(t *turns) (func(string) error, cache.SharedIndexInformer) {
			offered := t.quotas(core.ResourceQuotas())
			return func(space string) error { _, err := offered.Lister().ResourceQuotas(space + "ns").Get("x"); return err }, offered.Informer()
		}, 100 * time.Millisecond},
		"CronJobs": {func(t *turns) (func(string) error, cache.SharedIndexInformer) {
			offered := t.cronJobs(f.Batch().V1().CronJobs())
			return func(space string) error { _, err := offered.Lister().CronJobs(space + "ns").Get("x"); return err }, offered.Informer()
		}, 100 * time.Millisecond},
		"Deployments": {func(turns *turns) (func(string) error, cache.SharedIndexInformer) {
			offered, _, err := newDeployments(apps.Deployments(), apps.ReplicaSets(), turns)
			if err != nil {
				t.Fatal(err)
			}
			return func(space string) error { _, err := offered.Lister().Deployments(space + "ns").Get("x"); return err }, offered.Informer()
		}, 100 * time.Millisecond},
		"pods that ReplicaSets select": {func(t *turns) (func(string) error, cache.SharedIndexInformer) {
			offered := t.pods(core.Pods())
			return func(space string) error {
				_, err := offered.Lister().Pods(space + "ns").List(labels.Everything())
				t.charge("a", 100*time.Millisecond) // what is done with them
				return err
			}, nil
		}, 0},
		"events of pods that ReplicaSets select": {func(turns *turns) (func(string) error, cache.SharedIndexInformer) {
			offered, err := newReplicaSets(apps.ReplicaSets(), turns)
			if err != nil {
				t.Fatal(err)
			}
			return func(space string) error {
				found, err := offered.Lister().GetPodReplicaSets(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: space + "ns", Labels: map[string]string{"y": "z"}}})
				if space == "b|" { // which has none
					return nil
				}
				if err == nil && len(found) != 1_000 {
					t.Errorf("found %d", len(found))
				}
				return err
			}, nil
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := newTurns(1)
				inTurn, informer := tc.get(turns)
				worker := newWorker(t)
				get := func(space string) error {
					return worker.works(tc.took, func() error { return inTurn(space) })
				}
				taken := 0
				for ; taken < 10_000 && get("a|") == nil; taken++ {
				}
				if taken == 0 || taken == 10_000 {
					t.Errorf("%d items of a tenant in a row", taken)
				}
				if err := get("b|"); err != nil {
					t.Errorf("another tenant waits: %v", err)
				}
				if informer == nil {
					return
				}
				handled := errNoneSelects
				exempted{cache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled = inTurn("a|") }}}.OnAdd(nil, false)
				if handled != nil {
					t.Errorf("a handler waits: %v", handled)
				}
				time.Sleep(time.Minute)
				if err := get("a|"); err != nil {
					t.Errorf("after a minute: %v", err)
				}
			})
		})
	}
}

// TestEventsWait checks that a controller that must not miss an object hears of it later, and of
// deletions at once, and that new objects of a tenant wait behind those that have waited.
func TestEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		apps, core := f.Apps().V1(), f.Core().V1()
		turns := newTurns(1)
		offered, err := newReplicaSets(apps.ReplicaSets(), turns)
		if err != nil {
			t.Fatal(err)
		}
		var heard []string
		handler := offered.Informer().(*inTurn).delayed(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { heard = append(heard, "add "+obj.(*appsv1.ReplicaSet).Namespace) },
			UpdateFunc: func(_, obj any) { heard = append(heard, "update "+obj.(*appsv1.ReplicaSet).Namespace) },
			DeleteFunc: func(obj any) { heard = append(heard, "delete "+obj.(*appsv1.ReplicaSet).Namespace) },
		})
		offered.Informer().(*inTurn).handlers = []cache.ResourceEventHandler{handler}
		turns.charge("a", time.Minute)
		for _, namespace := range []string{"a|ns", "b|ns", "ns"} {
			rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}}
			if err := apps.ReplicaSets().Informer().GetStore().Add(rs); err != nil {
				t.Fatal(err)
			}
			handler.OnAdd(rs, false)
			handler.OnUpdate(rs, rs)
			handler.OnDelete(rs)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"delete a|ns", "add b|ns", "update b|ns", "delete b|ns", "add ns", "update ns", "delete ns", "add a|ns"}, heard); diff != "" {
			t.Error(diff)
		}

		services := turns.services(core.Services())
		for _, name := range []string{"x", "y"} {
			if err := core.Services().Informer().GetStore().Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		list := func() int {
			found, err := services.Lister().Services("a|ns").List(labels.Everything())
			if err != nil {
				t.Error(err)
			}
			return len(found)
		}
		get := func(name string) error { _, err := services.Lister().Services("a|ns").Get(name); return err }
		if list() != 2 || get("x") != nil {
			t.Error("it is the tenant's turn")
		}
		turns.charge("a", time.Minute)
		if list() != 0 {
			t.Error("it is not the tenant's turn")
		}
		time.Sleep(maxOwed - maxTurnDebt) // the debt allows new items
		if err := get("x"); !errors.Is(err, errNotInTurn) {
			t.Errorf("a new item goes before those that wait: %v", err)
		}
		time.Sleep(time.Minute)
		for _, name := range []string{"x", "y", "x"} {
			if err := get(name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
