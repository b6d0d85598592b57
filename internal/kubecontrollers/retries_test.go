package kubecontrollers

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestFailuresComeAgain checks that a controller hears of an object with which it has failed, later and later,
// although its queue has it come again after an hour, as behind thousands of others that fail.
func TestFailuresComeAgain(t *testing.T) {
	for _, namespace := range []string{"a|ns", "ns"} {
		synctest.Test(t, func(t *testing.T) {
			core := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1()
			offered := offeredIfInTurn(newDebts(1), core.ResourceQuotas().Informer(), corelisters.NewResourceQuotaLister)
			informer := offered.Informer().(*fairInformer)
			c := newController(t, informer, func(name string) error {
				_, err := offered.Lister().ResourceQuotas(namespace).Get(name)
				return err
			})
			queue := workqueue.NewTypedRateLimitingQueueWithConfig(workqueue.NewTypedItemFastSlowRateLimiter[string](time.Hour, time.Hour, 0),
				workqueue.TypedRateLimitingQueueConfig[string]{Name: "test"})
			defer queue.ShutDown()
			c.queue = queue
			fail := func(name string) {
				go func() {
					queue.Add(name)
					item, _ := queue.Get()
					defer queue.Done(item)
					if err := c.get(name); err == nil {
						queue.AddRateLimited(item)
					}
				}()
				synctest.Wait()
			}
			quota := func(name string) *corev1.ResourceQuota {
				return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			}
			addTo(t, core.ResourceQuotas().Informer(), quota("again"), quota("once"), quota("deleted"))
			var heard []string
			hears := func(after time.Duration, what ...string) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				for _, name := range what {
					heard = append(heard, namespace+"/"+name)
				}
				if diff := cmp.Diff(heard, c.heard()); diff != "" {
					t.Errorf("%s: %s", namespace, diff)
				}
			}
			fail("again")
			hears(firstRetry - 1)
			hears(1, "again")
			fail("again")
			hears(2*firstRetry - 1)
			hears(1, "again")
			fail("again")
			fail("again") // the controller has heard of it earlier
			hears(8*firstRetry - 1)
			hears(1, "again")
			for range 20 {
				fail("again")
			}
			hears(lastRetry, "again")

			fail("once")
			if err := c.tries("once"); err != nil {
				t.Error(err)
			}
			fail("deleted")
			if err := core.ResourceQuotas().Informer().GetStore().Delete(quota("deleted")); err != nil {
				t.Fatal(err)
			}
			hears(time.Hour - 1)
			if err := c.tries("again"); err != nil {
				t.Error(err)
			}
			if len(informer.failed) > 0 || len(informer.parked) > 0 || len(informer.given) > 0 {
				t.Errorf("still known: %v, %v, %v", informer.failed, informer.parked, informer.given)
			}
		})
	}
}

// TestFailuresOfOneTenant checks that of a tenant of which hundreds of objects fail, few come again in a second, and
// that another's does not wait for them.
func TestFailuresOfOneTenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quotas := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().ResourceQuotas()
		informer := offeredIfInTurn(newDebts(1), quotas.Informer(), corelisters.NewResourceQuotaLister).Informer().(*fairInformer)
		c := newController(t, informer, func(string) error { return nil })
		const many = 3 * retryBurst
		fail := func(namespace, name string) {
			addTo(t, quotas.Informer(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
			informer.again(tenant.Flat(namespace).Space(), namespace+"/"+name, true)
		}
		for i := range many {
			fail("a|ns", fmt.Sprint(i))
		}
		fail("b|ns", "x")
		count := func(want int) {
			t.Helper()
			synctest.Wait()
			if len(c.heard()) != want {
				t.Errorf("the controller hears of %d, want %d", len(c.heard()), want)
			}
		}
		time.Sleep(firstRetry)
		count(retryBurst + 10 + 2) // one of each at the beginning and the end of the second
		if !slices.Contains(c.heard(), "b|ns/x") {
			t.Error("another tenant's object waits")
		}
		time.Sleep(time.Second)
		count(retryBurst + 20 + 2)
		time.Sleep(time.Minute)
		count(many + 1)
		for i := range many {
			informer.again("a", fmt.Sprintf("a|ns/%d", i), false)
		}
		informer.again("b", "b|ns/x", false)
		if len(informer.failed)+len(informer.nextRetries) > 0 {
			t.Errorf("still known: %v, %v", informer.failed, informer.nextRetries)
		}
	})
}
