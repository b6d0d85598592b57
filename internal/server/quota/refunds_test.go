package quota

import (
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// acme is the quota of a tenant.
var acme = ref{keyOf("acme"), "u"}

// TestRefundsTogether checks that what is given back during a write goes together
// in the next one, that nobody returns before, and that nothing stays behind.
func TestRefundsTogether(t *testing.T) {
	const others = 20
	begun, goOn := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	freed, writes := corev1.ResourceList{}, 0
	r := &refunds{subtract: func(_ ref, amount corev1.ResourceList) error {
		mu.Lock()
		defer mu.Unlock()
		freed = quota.Add(freed, amount)
		writes++
		if writes == 1 {
			close(begun)
			<-goOn
		}
		return nil
	}}
	var group sync.WaitGroup
	group.Go(func() { r.giveBack(acme, list("pods", "1")) })
	<-begun
	var waiting []*batch
	for range others {
		waiting = append(waiting, r.join(acme, list("pods", "1", "services", "2")))
	}
	close(goOn)
	group.Wait()
	for _, b := range waiting {
		<-b.done
	}
	mu.Lock()
	defer mu.Unlock()
	if writes != 2 || !quota.Equals(freed, list("pods", "21", "services", "40")) {
		t.Errorf("%v were given back in %d writes", freed, writes)
	}
}

func TestRefundsFail(t *testing.T) {
	var doubted []ref
	r := &refunds{
		subtract: func(ref, corev1.ResourceList) error { return errors.New("etcd does not answer") },
		failed:   func(of ref) { doubted = append(doubted, of) },
	}
	r.giveBack(acme, list("pods", "1"))
	if len(doubted) != 1 || doubted[0] != acme {
		t.Errorf("doubted: %v", doubted)
	}
}
