package spaces

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/process/shares"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestBursts checks that one tenant's requests do not all run at once, and that others do not
// wait for them.
func TestBursts(t *testing.T) {
	for name, tc := range map[string]struct {
		bytes, want int
	}{
		"small": {0, 16},
		"large": {70_000, 2},
		"huge":  {1 << 20, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				running, most := map[string]int{}, map[string]int{}
				count := func(space string, by int) {
					mu.Lock()
					defer mu.Unlock()
					running[space] += by
					most[space] = max(most[space], running[space])
				}
				bursts, metered := NewBursts(2), map[tenant.Name]time.Duration{}
				meter := func(n tenant.Name, took time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					metered[n] += took
				}
				// Two controllers.
				var clients []*kubernetes.Clientset
				for range 2 {
					config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
						space := strings.Split(req.URL.Path, "/")[2]
						count(space, 1)
						time.Sleep(time.Millisecond)
						count(space, -1)
						return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
							Body: io.NopCloser(strings.NewReader(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns"}}`))}, nil
					})}
					nobody := func(tenant.Flat, string) types.UID { return "" }
					clients = append(clients, kubernetes.NewForConfigOrDie(NewClientConfig(config, WithWorkers(workers, nobody), WithBursts(bursts), WithMeter(meter))))
				}
				var creations sync.WaitGroup
				for i := range 100 {
					for _, space := range []string{"a", "b"} {
						creations.Go(func() {
							pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-", Annotations: map[string]string{"a": strings.Repeat("x", tc.bytes)}}}
							if _, err := clients[i%2].CoreV1().Pods(space+"|ns").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
								t.Error(err)
							}
						})
					}
				}
				creations.Wait()
				if most["a"] != tc.want || most["b"] != tc.want {
					t.Errorf("%v ran at once, want %d of each", most, tc.want)
				}
				if bursts.tenants.Len() > 0 {
					t.Errorf("%d tenants are kept", bursts.tenants.Len())
				}
				if metered["a"] < 100*time.Millisecond || metered["b"] < 100*time.Millisecond {
					t.Errorf("requests took %v", metered)
				}
			})
		})
	}
}

// TestTurns checks that requests of workers are refused while it is not the turn of a tenant, and no
// others.
func TestTurns(t *testing.T) {
	sent := 0
	config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		sent++
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns"}}`))}, nil
	})}
	nobody := func(tenant.Flat, string) types.UID { return "" }
	client := kubernetes.NewForConfigOrDie(NewClientConfig(config, WithWorkers(1, nobody), WithTurns(func(method string, n tenant.Name) bool { return method != http.MethodGet || n != "a" })))
	for namespace, refused := range map[string]bool{"a|ns": true, "b|ns": false, "ns": false} {
		before := sent
		_, err := client.CoreV1().Pods(namespace).Get(t.Context(), "p", metav1.GetOptions{})
		if apierrors.IsTooManyRequests(err) != refused || !refused && err != nil || refused != (sent == before) {
			t.Errorf("%s: %v after %d requests", namespace, err, sent-before)
		}
		if err := client.CoreV1().Pods(namespace).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
			t.Errorf("%s: a deletion waits: %v", namespace, err)
		}
		if _, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Errorf("%s: events wait: %v", namespace, err)
		}
	}
}

// TestBurstsEnd checks that a request that is given up does not wait any longer.
func TestBurstsEnd(t *testing.T) {
	bursts := NewBursts(1)
	leave, err := bursts.enter(t.Context(), "a", 1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ErrNotInTurn)
	if _, err := bursts.enter(ctx, "a", 0, false); err == nil || !strings.Contains(err.Error(), ErrNotInTurn.Error()) {
		t.Errorf("got %v", err)
	}
	leave()
	if bursts.tenants.Len() > 0 {
		t.Errorf("%d tenants are kept", bursts.tenants.Len())
	}
}

// TestBurstsAreNotWaitedForLong checks that a worker does not wait for long, such as the one worker
// of a controller for all pods of a ReplicaSet. Only the worker that makes these does.
func TestBurstsAreNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bursts := NewBursts(1)
		leave, err := bursts.enter(t.Context(), "a", 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := bursts.enter(t.Context(), "a", 0, true); !errors.Is(err, ErrNotInTurn) || time.Since(began) != shares.WaitThreshold/2 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		for range 2 { // of one worker, in other places
			later, err := bursts.enter(t.Context(), "a", 1<<20, false)
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Minute, later)
		}
		if took := time.Since(began); took < time.Minute {
			t.Errorf("two ran at once, after %v", took)
		}
		leave()
		time.Sleep(2 * time.Minute)
		if bursts.tenants.Len() > 0 {
			t.Errorf("%d tenants are kept", bursts.tenants.Len())
		}
	})
}
