package roundtrip

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestFilterWatch checks that a watch passes on what it is to, and ends when it is stopped, also while nobody takes an
// event: the bubble does not end otherwise.
func TestFilterWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watch.NewFakeWithChanSize(3, false)
		for _, name := range []string{"a", "not", "b"} {
			source.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		w := FilterWatch(source, func(event watch.Event) (watch.Event, bool) {
			return event, event.Object.(*corev1.ConfigMap).Name != "not"
		})
		if event := <-w.ResultChan(); event.Object.(*corev1.ConfigMap).Name != "a" {
			t.Errorf("the first event is %v", event)
		}
		synctest.Wait() // until b waits for somebody who takes it
		w.Stop()
		w.Stop()
		synctest.Wait()
		if event, more := <-w.ResultChan(); more {
			t.Errorf("a watch that was stopped goes on with %v", event)
		}
	})
}
