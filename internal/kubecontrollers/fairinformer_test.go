package kubecontrollers

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/tenant"
)

// testController is one in a synctest, as its informer and its workers see it.
type testController struct {
	t     *testing.T
	queue workqueue.TypedInterface[string]
	get   func(key string) error

	mu   sync.Mutex
	keys []string
}

// heard returns the keys that its handler has been told.
func (c *testController) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.keys)
}

// newController returns a controller of the objects of an informer.
func newController(t *testing.T, informer cache.SharedIndexInformer, get func(key string) error) *testController {
	t.Helper()
	c := &testController{t: t, queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "test"}), get: get}
	t.Cleanup(c.queue.ShutDown)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		key, err := cache.MetaNamespaceKeyFunc(obj)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keys = append(c.keys, key)
	}}); err != nil {
		t.Fatal(err)
	}
	return c
}

// work has a worker of its own get an object and work on it for some time, in the background.
func (c *testController) work(key string, took time.Duration) {
	go func() {
		if err := c.begin(key, took); err != nil {
			c.t.Errorf("%s: %v", key, err)
		}
	}()
	synctest.Wait()
}

// begin returns an error if it is not an object's turn.
func (c *testController) begin(key string, took time.Duration) error {
	c.queue.Add(key)
	item, _ := c.queue.Get()
	defer c.queue.Done(item)
	if err := c.get(key); err != nil {
		return err
	}
	time.Sleep(took)
	return nil
}

// tries is begin in a goroutine of its own, for an object that takes no time.
func (c *testController) tries(key string) error {
	result := make(chan error)
	go func() { result <- c.begin(key, 0) }()
	return <-result
}

func addTo(t *testing.T, informer cache.SharedIndexInformer, objects ...runtime.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := informer.GetStore().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
}

// indebt makes a tenant owe as much as one can.
func indebt(t *debts, n tenant.Name) { t.charge(n, time.Minute) }

// TestTakingTurns checks that objects of a tenant that owes much are worked on a few at a time, that the others come
// back as soon as a worker is done, and that another tenant, the system and the handlers of the controller do not wait.
func TestTakingTurns(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core, apps, batch := f.Core().V1(), f.Apps().V1(), f.Batch().V1()
	for name, tc := range map[string]struct {
		informer cache.SharedIndexInformer
		object   func(metav1.ObjectMeta) runtime.Object
		offer    func(*debts) (cache.SharedIndexInformer, func(namespace, name string) error)
	}{
		"Namespaces": {core.Namespaces().Informer(), func(meta metav1.ObjectMeta) runtime.Object {
			meta.Namespace, meta.Name = "", meta.Namespace+meta.Name
			return &corev1.Namespace{ObjectMeta: meta}
		}, func(t *debts) (cache.SharedIndexInformer, func(string, string) error) {
			offered := t.namespaces(core.Namespaces())
			return offered.Informer(), func(_, name string) error { _, err := offered.Lister().Get(name); return err }
		}},
		"ResourceQuotas": {core.ResourceQuotas().Informer(), func(meta metav1.ObjectMeta) runtime.Object { return &corev1.ResourceQuota{ObjectMeta: meta} },
			func(t *debts) (cache.SharedIndexInformer, func(string, string) error) {
				offered := offeredIfInTurn(t, core.ResourceQuotas().Informer(), corelisters.NewResourceQuotaLister)
				return offered.Informer(), func(namespace, name string) error {
					_, err := offered.Lister().ResourceQuotas(namespace).Get(name)
					return err
				}
			}},
		"Deployments": {apps.Deployments().Informer(), func(meta metav1.ObjectMeta) runtime.Object { return &appsv1.Deployment{ObjectMeta: meta} },
			func(debts *debts) (cache.SharedIndexInformer, func(string, string) error) {
				offered, _, err := newDeployments(apps.Deployments(), apps.ReplicaSets(), debts)
				if err != nil {
					t.Fatal(err)
				}
				return offered.Informer(), func(namespace, name string) error {
					_, err := offered.Lister().Deployments(namespace).Get(name)
					return err
				}
			}},
		"CronJobs": {batch.CronJobs().Informer(), func(meta metav1.ObjectMeta) runtime.Object { return &batchv1.CronJob{ObjectMeta: meta} },
			func(t *debts) (cache.SharedIndexInformer, func(string, string) error) {
				offered := offeredIfInTurn(t, batch.CronJobs().Informer(), batchlisters.NewCronJobLister)
				return offered.Informer(), func(namespace, name string) error {
					_, err := offered.Lister().CronJobs(namespace).Get(name)
					return err
				}
			}},
		"Services": {core.Services().Informer(), func(meta metav1.ObjectMeta) runtime.Object { return &corev1.Service{ObjectMeta: meta} },
			func(t *debts) (cache.SharedIndexInformer, func(string, string) error) {
				offered := t.services(core.Services())
				return offered.Informer(), func(namespace, name string) error {
					_, err := offered.Lister().Services(namespace).Get(name)
					return err
				}
			}},
		"Endpoints": {core.Endpoints().Informer(), func(meta metav1.ObjectMeta) runtime.Object { return &corev1.Endpoints{ObjectMeta: meta} },
			func(t *debts) (cache.SharedIndexInformer, func(string, string) error) {
				offered := offeredFairly(t.informer(core.Endpoints().Informer(), t.failParked()), corelisters.NewEndpointsLister)
				return offered.Informer(), func(namespace, name string) error {
					_, err := offered.Lister().Endpoints(namespace).Get(name)
					return err
				}
			}},
		"HorizontalPodAutoscalers": {f.Autoscaling().V2().HorizontalPodAutoscalers().Informer(),
			func(meta metav1.ObjectMeta) runtime.Object {
				return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta}
			},
			func(t *debts) (cache.SharedIndexInformer, func(string, string) error) {
				offered := t.autoscalers(f.Autoscaling().V2().HorizontalPodAutoscalers())
				return offered.Informer(), func(namespace, name string) error {
					_, err := offered.Lister().HorizontalPodAutoscalers(namespace).Get(name)
					return err
				}
			}},
	} {
		for _, namespace := range []string{"a|", "b|", ""} {
			for i := range 40 {
				addTo(t, tc.informer, tc.object(metav1.ObjectMeta{Namespace: namespace + "ns", Name: fmt.Sprintf("%02d", i)}))
			}
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				debts := newDebts(40)
				informer, get := tc.offer(debts)
				key := func(space string, i int) string {
					if name == "Namespaces" {
						return fmt.Sprintf("%sns%02d", space, i)
					}
					return fmt.Sprintf("%sns/%02d", space, i)
				}
				c := newController(t, informer, func(key string) error {
					namespace, name, err := cache.SplitMetaNamespaceKey(key)
					if err != nil {
						return err
					}
					return get(namespace, name)
				})
				for i := range 20 { // a tenant that owes nothing
					c.work(key("a|", i), time.Second)
				}
				time.Sleep(time.Minute)
				indebt(debts, "a")
				most := informer.(*fairInformer).sharing.most
				for i := range most {
					c.work(key("a|", i), 10*time.Second)
				}
				for i := most; i < most+3; i++ {
					if c.tries(key("a|", i)) == nil {
						t.Errorf("%d are worked on at a time, want %d", i+1, most)
					}
				}
				for _, space := range []string{"b|", ""} {
					if err := c.tries(key(space, 0)); err != nil {
						t.Errorf("in %q: %v", space, err)
					}
				}
				var handled error
				newExempted(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled = c.get(key("a|", 39)) }}).OnAdd(nil, false)
				if handled != nil {
					t.Errorf("a handler waits: %v", handled)
				}
				if time.Sleep(9 * time.Second); len(c.heard()) > 0 && name != "Namespaces" {
					t.Errorf("%v come too early", c.heard())
				}
				time.Sleep(2 * time.Second) // a worker is done
				synctest.Wait()
				if !slices.Contains(c.heard(), key("a|", most)) { // workers that are done at once have others come in any order
					t.Fatalf("%v come after one that is done", c.heard())
				}
				if err := c.tries(c.heard()[0]); err != nil {
					t.Errorf("what comes back waits: %v", err)
				}
				time.Sleep(time.Minute)
				for i := range 40 {
					if err := c.tries(key("a|", i)); err != nil {
						t.Errorf("after a minute, %d: %v", i, err)
					}
				}
			})
		})
	}
}

// TestUnmeasured checks that a tenant whose objects take it is not known how long has half of the workers, until one
// of them is done.
func TestUnmeasured(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(2)) // workers count by the number of cores
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		const workers = 10
		offered := offeredIfInTurn(newDebts(workers), f.Core().V1().ResourceQuotas().Informer(), corelisters.NewResourceQuotaLister)
		c := newController(t, offered.Informer(), func(key string) error {
			namespace, name, err := cache.SplitMetaNamespaceKey(key)
			if err != nil {
				return err
			}
			_, err = offered.Lister().ResourceQuotas(namespace).Get(name)
			return err
		})
		key := func(i int) string { return fmt.Sprintf("a|ns/%d", i) }
		for i := range workers {
			addTo(t, f.Core().V1().ResourceQuotas().Informer(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprint(i)}})
		}
		c.work(key(0), 2*time.Second)
		for i := 1; i < workers/2; i++ {
			c.work(key(i), time.Hour)
		}
		for i := workers / 2; i < workers; i++ {
			if c.tries(key(i)) == nil {
				t.Errorf("%d of %d workers before one is done", i+1, workers)
			}
		}
		if time.Sleep(time.Second); len(c.heard()) > 0 {
			t.Errorf("%v come before one is done", c.heard())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{key(5), key(6), key(7), key(8), key(9)}
		if diff := cmp.Diff(want, c.heard()); diff != "" {
			t.Errorf("when one is done: %s", diff)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
	})
}

// TestParkedFirst checks that an object does not overtake those that are parked, although there is room for it.
func TestParkedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ResourceQuotas()
		informer := offeredIfInTurn(newDebts(1), quotas.Informer(), corelisters.NewResourceQuotaLister).Informer().(*fairInformer)
		c := newController(t, informer, func(key string) error {
			_, exists, err := informer.GetIndexer().GetByKey(key)
			if err == nil && !exists {
				err = fmt.Errorf("%s waits", key)
			}
			return err
		})
		addTo(t, quotas.Informer(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "x"}})
		indebt(informer.handling, "a")
		informer.parkAll("a", "a|other")
		if c.tries("a|ns/x") == nil {
			t.Error("an object overtakes those that are parked")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a|ns/x"}, c.heard()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestNothingIsLost has a tenant that owes much write a thousand objects, of which each is worked on once, in order.
func TestNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		debts := newDebts(1)
		offered := debts.services(f.Core().V1().Services())
		var worked []string
		c := newController(t, offered.Informer(), func(key string) error {
			namespace, name, err := cache.SplitMetaNamespaceKey(key)
			if err == nil {
				_, err = offered.Lister().Services(namespace).Get(name)
			}
			if err == nil {
				worked = append(worked, name)
			}
			return err
		})
		indebt(debts, "a")
		for i := range 1000 {
			addTo(t, f.Core().V1().Services().Informer(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: fmt.Sprintf("%03d", i)}})
		}
		most := offered.Informer().(*fairInformer).sharing.most
		for i := range most {
			c.work(fmt.Sprintf("a|ns/%03d", i), time.Second)
		}
		for i := most; i < 1000; i++ {
			if c.tries(fmt.Sprintf("a|ns/%03d", i)) == nil {
				t.Fatalf("%d of a tenant that owes much at once", i+1)
			}
		}
		began := time.Now()
		for next := 0; len(worked) < 1000 && time.Since(began) < time.Hour; time.Sleep(time.Millisecond) {
			synctest.Wait()
			for ; next < len(c.heard()); next++ {
				_ = c.tries(c.heard()[next])
			}
		}
		if !slices.IsSorted(worked) {
			t.Error("they are not worked on in order")
		}
		slices.Sort(worked)
		if got := len(slices.Compact(worked)); got != 1000 || len(worked) != 1000 {
			t.Errorf("%d objects, %d times", got, len(worked))
		}
		if informer := offered.Informer().(*fairInformer); len(informer.given)+len(informer.parked) > 0 {
			t.Errorf("%v are still given, and %v parked", informer.given, informer.parked)
		}
	})
}

// TestWorkersAreMeasured checks what a tenant owes for what a worker does, with each kind of informer.
func TestWorkersAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		for _, namespace := range []string{"a|ns", "ns"} {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: "x"}
			addTo(t, f.Apps().V1().ReplicaSets().Informer(), &appsv1.ReplicaSet{ObjectMeta: meta})
			addTo(t, f.Core().V1().Services().Informer(), &corev1.Service{ObjectMeta: meta})
		}
		for name, offer := range map[string]func(t *debts) (cache.SharedIndexInformer, func(namespace string) error){
			"open": func(debts *debts) (cache.SharedIndexInformer, func(string) error) {
				offered, err := newReplicaSets(f.Apps().V1().ReplicaSets(), debts)
				if err != nil {
					t.Fatal(err)
				}
				return offered.Informer(), func(namespace string) error {
					_, err = offered.Lister().ReplicaSets(namespace).Get("x")
					return err
				}
			},
			"others": func(debts *debts) (cache.SharedIndexInformer, func(string) error) {
				offered := debts.services(f.Core().V1().Services())
				return offered.Informer(), func(namespace string) error { _, err := offered.Lister().Services(namespace).Get("x"); return err }
			},
		} {
			debts := newDebts(1)
			informer, get := offer(debts)
			c := newController(t, informer, get)
			for _, namespace := range []string{"a|ns", "ns"} {
				if err := c.begin(namespace, time.Second); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := debts.debt("a"); got != debtDivisor*time.Second-time.Second { // paid back since then
				t.Errorf("%s: owes %v", name, got)
			}
			if len(debts.until) != 1 {
				t.Errorf("%s: the system owes, too: %v", name, debts.until)
			}
			if informer := informer.(*fairInformer); len(informer.given) > 0 {
				t.Errorf("%s: %v are still given", name, informer.given)
			}
		}
	})
}

// TestEventsWait checks that a controller that must not miss an object hears of few of a tenant that owes much, of
// deletions at once, and of the others when it is done.
func TestEventsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		apps := f.Apps().V1()
		debts := newDebts(2 * releasedAtOnce)
		offered, err := newReplicaSets(apps.ReplicaSets(), debts)
		if err != nil {
			t.Fatal(err)
		}
		informer := offered.Informer().(*fairInformer)
		var heard []string
		note := func(what string) func(any) {
			return func(obj any) {
				object := obj.(*appsv1.ReplicaSet)
				heard = append(heard, what+" "+object.Namespace+"/"+object.Name)
			}
		}
		handler := informer.delayed(cache.ResourceEventHandlerFuncs{
			AddFunc: note("add"), UpdateFunc: func(_, obj any) { note("update")(obj) }, DeleteFunc: note("delete"),
		})
		var changed []string
		informer.handlers = []cache.ResourceEventHandler{cache.ResourceEventHandlerFuncs{AddFunc: note("again"), UpdateFunc: func(old, obj any) {
			changed = append(changed, fmt.Sprintf("%s from %d", obj.(*appsv1.ReplicaSet).Name, old.(*appsv1.ReplicaSet).Generation))
		}}}
		replicaSet := func(namespace string, i int) *appsv1.ReplicaSet {
			return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%02d", i)},
				Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"i": fmt.Sprint(i)}}}}
		}
		indebt(debts, "a")
		for _, namespace := range []string{"a|ns", "b|ns", "ns"} {
			for i := range 3 * releasedAtOnce {
				addTo(t, apps.ReplicaSets().Informer(), replicaSet(namespace, i))
				handler.OnAdd(replicaSet(namespace, i), false)
			}
			want := 3 * releasedAtOnce
			if namespace == "a|ns" {
				want = releasedAtOnce
			}
			if len(heard) != want {
				t.Errorf("in %s: the controller hears of %d", namespace, len(heard))
			}
			heard = nil
		}
		handler.OnUpdate(nil, replicaSet("a|ns", 0))
		for _, generation := range []int64{1, 2} {
			old := replicaSet("a|ns", releasedAtOnce)
			old.Generation = generation
			handler.OnUpdate(old, replicaSet("a|ns", releasedAtOnce))
		}
		handler.OnDelete(replicaSet("a|ns", releasedAtOnce+1))
		handler.OnAdd(replicaSet("a|ns", releasedAtOnce+2), true)
		if diff := cmp.Diff([]string{"update a|ns/00", "delete a|ns/17", "add a|ns/18"}, heard); diff != "" {
			t.Error(diff)
		}
		// Events of a pod are those of what selects it.
		for i, selected := range map[int]int{1: 1, releasedAtOnce + 3: 0} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a|ns", Name: "p", Labels: map[string]string{"i": fmt.Sprint(i)}}}
			if found, err := offered.Lister().GetPodReplicaSets(pod); len(found) != selected || (err == nil) != (selected > 0) {
				t.Errorf("a pod of %d: found %d, %v", i, len(found), err)
			}
		}
		// Workers are done, one after the other, and the others come.
		heard = nil
		c := newController(t, f.Core().V1().Pods().Informer(), func(name string) error {
			_, err := offered.Lister().ReplicaSets("a|ns").Get(name)
			return err
		})
		for i := range 2 * releasedAtOnce {
			if err := c.tries(fmt.Sprintf("%02d", i)); err != nil {
				t.Error(err)
			}
			if synctest.Wait(); len(heard) != i+1 || heard[i] != fmt.Sprintf("again a|ns/%02d", releasedAtOnce+i) {
				t.Fatalf("after %d, the controller hears of %v", i, heard)
			}
		}
		if diff := cmp.Diff([]string{"16 from 1"}, changed); diff != "" {
			t.Errorf("changes of which the controller hears: %s", diff)
		}
	})
}

// TestHalfOfTheWorkers checks that a tenant that owes much has half of the workers at most, on a machine of any size.
func TestHalfOfTheWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 5: 2, 10: 5, 100: releasedAtOnce} {
		debts := newDebts(workers)
		if got := debts.showParked().most; got != want {
			t.Errorf("%d of %d workers, whose events wait; want %d", got, workers, want)
		}
		debts.parallel = time.Duration(workers) // more cores than workers
		if got := debts.failParked().most; got != max(1, workers/2) {
			t.Errorf("%d of %d workers", got, workers)
		}
	}
}

// TestHandlersTakeTurns checks that a tenant owes what handlers look for, apart from what workers do, and that all of a
// namespace come back later.
func TestHandlersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		from, err := newBudgets(f.Policy().V1().PodDisruptionBudgets())
		if err != nil {
			t.Fatal(err)
		}
		debts := newDebts(1)
		budgets, services := debts.budgets(from), debts.services(f.Core().V1().Services())
		for _, namespace := range []string{"a|ns", "b|ns"} {
			meta := metav1.ObjectMeta{Namespace: namespace, Name: "x"}
			addTo(t, f.Core().V1().Services().Informer(), &corev1.Service{ObjectMeta: meta})
			addTo(t, f.Policy().V1().PodDisruptionBudgets().Informer(), &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}})
		}
		c := newController(t, services.Informer(), nil)
		other := newController(t, budgets.Informer(), nil)
		found := func(namespace string) [2]int {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"a": "b"}}}
			listed, err := services.Lister().Services(namespace).List(labels.Everything())
			if err != nil {
				t.Error(err)
			}
			selecting, _ := budgets.Lister().GetPodPodDisruptionBudgets(pod)
			return [2]int{len(listed), len(selecting)}
		}
		indebt(debts, "a")
		if got := found("a|ns"); got != [2]int{1, 1} {
			t.Errorf("found %v for a tenant whose workers have worked long", got)
		}
		for _, informer := range []*fairInformer{services.Informer().(*fairInformer), budgets.Informer().(*fairInformer)} {
			informer.look("ns", func() { time.Sleep(time.Second) })
			informer.look("a|ns", func() { time.Sleep(time.Minute) })
			if debt := informer.handling.debt("a"); debt != maxOwed || len(informer.handling.until) != 1 {
				t.Errorf("owes %v after a long look, and %d tenants owe something", debt, len(informer.handling.until))
			}
			informer.handling.charge("a", time.Minute) // while the other one looks
		}
		services.Informer().(*fairInformer).handling.charge("a", time.Minute)
		if got := found("a|ns"); got != [2]int{} {
			t.Errorf("found %v for a tenant whose handlers have looked long", got)
		}
		if got := found("b|ns"); got != [2]int{1, 1} {
			t.Errorf("found %v for another tenant", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a|ns/x"}, slices.Compact(c.heard())); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"a|ns/x"}, slices.Compact(other.heard())); diff != "" {
			t.Error(diff)
		}
	})
}

// TestOfThousands checks that what is looked for again and again in one item is refused to a tenant that owes much.
func TestOfThousands(t *testing.T) {
	f := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	debts := newDebts(1)
	now := time.Now()
	debts.now = func() time.Time { return now }
	pods := debts.pods(f.Core().V1().Pods()).Lister()
	list := func(namespace string) error { _, err := pods.Pods(namespace).List(labels.Everything()); return err }
	if err := list("a|ns"); err != nil || debts.debt("a") == 0 {
		t.Errorf("got %v, and owes %v", err, debts.debt("a"))
	}
	indebt(debts, "a")
	if list("a|ns") == nil {
		t.Error("a tenant that owes much lists pods")
	}
	for _, namespace := range []string{"b|ns", "ns"} {
		if err := list(namespace); err != nil {
			t.Errorf("in %s: %v", namespace, err)
		}
	}
}

// TestOrphansTakeTurns checks that the controller of Jobs looks for the pods of one that has gone when its tenant owes
// little.
func TestOrphansTakeTurns(t *testing.T) {
	defer func(all []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = all }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil // they wait by the time of other tests
	synctest.Test(t, func(t *testing.T) {
		web := map[string]string{"app": "web"}
		var objects []runtime.Object
		for _, namespace := range []string{"a|ns", "b|ns"} {
			objects = append(objects,
				&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x", UID: "u"}, Spec: batchv1.JobSpec{
					ManagedBy: new("example.com/other"), Selector: &metav1.LabelSelector{MatchLabels: web}}},
				&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: web, Finalizers: []string{batchv1.JobTrackingFinalizer},
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "x", UID: "u", Controller: new(true)}}}})
		}
		server := &requested{}
		clients := fake.NewClientset(objects...)
		e := &environment{shared: &shared{informers: informers.NewSharedInformerFactory(clients, 0)}, debts: newDebts(1), client: kubernetes.NewForConfigOrDie(&rest.Config{Transport: server, QPS: -1})}
		ctx, cancel := context.WithCancel(t.Context())
		controller, err := newJob(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		indebt(e.debts, "a")
		e.informers.Start(ctx.Done())
		go controller.Run(ctx, 1)
		synctest.Wait()
		for _, namespace := range []string{"a|ns", "b|ns"} {
			if err := clients.BatchV1().Jobs(namespace).Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if server.concerns("a|ns") || !server.concerns("b|ns") {
			t.Errorf("while a owes much, the controller asks for %v", server.paths)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if !server.concerns("a|ns") {
			t.Errorf("after two minutes, the controller has asked for %v", server.paths)
		}
		cancel()
		e.informers.Shutdown()
	})
}
