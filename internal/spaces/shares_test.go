package spaces

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/process/shares"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// workers are those of the controllers in these tests; two of them are a share.
const workers = 8

// slowServer answers requests in the space of a after a time, and others at once.
func slowServer(t *testing.T, after func() time.Duration) *kubernetes.Clientset {
	t.Helper()
	config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		if strings.HasPrefix(req.URL.Path, "/tenants/a/") {
			select {
			case <-time.After(after()):
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
		}
		return &http.Response{
			StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"ns"}}`)),
		}, nil
	})}
	nobody := func(tenant.Flat, string) types.UID { return "" }
	client, err := kubernetes.NewForConfig(NewClientConfig(config, WithWorkers(workers, nobody)))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// create creates pods in a namespace of a space, each of an owner of its own or all of
// one, and returns how many were refused.
func create(t *testing.T, client *kubernetes.Clientset, namespace string, pods int, oneOwner bool) int {
	t.Helper()
	var creations sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for i := range pods {
		owner := types.UID(fmt.Sprint(time.Now(), i))
		if oneOwner {
			owner = "one"
		}
		creations.Go(func() {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Name: "p", OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: ptr.To(true)}},
			}}
			_, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			switch {
			case apierrors.IsTooManyRequests(err):
				mu.Lock()
				refused++
				mu.Unlock()
			case err != nil:
				t.Error(err)
			}
		})
	}
	creations.Wait()
	return refused
}

func TestShares(t *testing.T) {
	const hanging = 20 * time.Second
	synctest.Test(t, func(t *testing.T) {
		took := 10 * time.Millisecond
		client := slowServer(t, func() time.Duration { return took })
		if refused := create(t, client, "a|ns", 10*workers, false); refused > 0 {
			t.Errorf("%d requests of a tenant with quick webhooks were refused", refused)
		}

		took = hanging
		began := time.Now()
		go func() {
			time.Sleep(shares.WaitThreshold + time.Millisecond)
			if refused := create(t, client, "a|ns", 10, false); refused != 10 {
				t.Errorf("%d of 10 requests were refused while others wait", refused)
			}
			if refused := create(t, client, "b|ns", 10*workers, false); refused > 0 {
				t.Errorf("%d requests of another tenant were refused", refused)
			}
			if waited := time.Since(began); waited > shares.WaitThreshold+time.Millisecond {
				t.Errorf("others had to wait for %v", waited)
			}
		}()
		if refused := create(t, client, "a|ns", workers, false); refused != workers-workers/shares.Divisor {
			t.Errorf("%d of %d requests were refused, not those beyond the share", refused, workers)
		}
		if waited := time.Since(began); waited != hanging {
			t.Errorf("the share waited for %v", waited)
		}

		// Now it is in debt.
		if refused := create(t, client, "a|ns", workers, false); refused != workers-workers/shares.Divisor {
			t.Errorf("in debt, %d of %d requests were refused", refused, workers)
		}
		time.Sleep(max(shares.MaxSlowTime, hanging))
		took = 10 * time.Millisecond
		if refused := create(t, client, "a|ns", workers, false); refused > 0 {
			t.Errorf("%d requests were refused although the debt is paid", refused)
		}
	})
}

// TestParallelRequests has one worker create many pods at the same time.
func TestParallelRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := slowServer(t, func() time.Duration { return 3 * time.Second })
		if refused := create(t, client, "a|ns", 100, true); refused > 0 {
			t.Errorf("%d requests of one worker were refused", refused)
		}
	})
}

// TestManyObjects creates what each takes a worker, all in one collection.
func TestManyObjects(t *testing.T) {
	slices := func(ctx context.Context, client *kubernetes.Clientset, i int) error {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			GenerateName:    "web-",
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(fmt.Sprint(i)), Controller: ptr.To(true)}},
		}}
		_, err := client.DiscoveryV1().EndpointSlices("a|ns").Create(ctx, slice, metav1.CreateOptions{})
		return err
	}
	endpoints := func(ctx context.Context, client *kubernetes.Clientset, i int) error {
		created := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}}
		_, err := client.CoreV1().Endpoints("a|ns").Create(ctx, created, metav1.CreateOptions{})
		return err
	}
	claims := func(ctx context.Context, client *kubernetes.Clientset, i int) error {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprint(i),
			OwnerReferences: []metav1.OwnerReference{{UID: "forged", Controller: ptr.To(true)}},
		}}
		_, err := client.CoreV1().PersistentVolumeClaims("a|ns").Create(ctx, claim, metav1.CreateOptions{})
		return err
	}
	for name, create := range map[string]func(context.Context, *kubernetes.Clientset, int) error{
		"EndpointSlices": slices, "Endpoints": endpoints, "claims": claims,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := slowServer(t, func() time.Duration { return 10 * time.Second })
				var refused atomic.Int32
				var creations sync.WaitGroup
				for i := range workers {
					creations.Go(func() {
						if err := create(t.Context(), client, i); apierrors.IsTooManyRequests(err) {
							refused.Add(1)
						} else if err != nil {
							t.Error(err)
						}
					})
				}
				creations.Wait()
				if got := refused.Load(); got != workers-workers/shares.Divisor {
					t.Errorf("%d of %d requests were refused, not those beyond the share", got, workers)
				}
			})
		})
	}
}

func TestItems(t *testing.T) {
	ownerOf := func(namespace tenant.Flat, pod string) types.UID {
		return types.UID(string(namespace) + " " + pod + "'s owner")
	}
	const owned = `{"metadata":{"ownerReferences":[{"uid":"x"},{"uid":"u","controller":true}]}}`
	for _, tc := range []struct {
		method, path, body string
		ownerOf            func(namespace tenant.Flat, pod string) types.UID
		want               types.UID
	}{
		{http.MethodPost, "/api/v1/namespaces/a|ns/pods", owned, ownerOf, "u"},
		{http.MethodPost, "/api/v1/namespaces/a|ns/pods", owned, nil, ""},
		{http.MethodPost, "/api/v1/namespaces/a|ns/pods", `{"metadata":{"ownerReferences":[{"uid":"x"}]}}`, ownerOf, ""},
		{http.MethodPost, "/api/v1/namespaces/a|ns/persistentvolumeclaims", owned, ownerOf, ""},
		{http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/a|ns/endpointslices", owned, ownerOf, ""},
		{http.MethodPost, "/api/v1/namespaces/a|ns/endpoints", `{"metadata":{"name":"e"}}`, ownerOf, ""},
		{http.MethodDelete, "/api/v1/namespaces/a|ns/pods/p", "", ownerOf, "a|ns p's owner"},
		{http.MethodDelete, "/api/v1/namespaces/a|ns/pods/p", "", nil, ""},
		{http.MethodDelete, "/api/v1/namespaces/a|ns/pods", "", ownerOf, ""},
		{http.MethodPatch, "/api/v1/namespaces/a|ns/secrets/p", "{}", ownerOf, ""},
	} {
		transport := &flatteningTransport{}
		WithWorkers(workers, tc.ownerOf)(transport)
		r, err := routeOf(tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := transport.itemOf(tc.method, &r, []byte(tc.body)); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.method, tc.path, got, tc.want)
		}
		if shared := transport.sharesFor(&r); shared != transport.workers {
			t.Errorf("%s %s: has no share in the workers", tc.method, tc.path)
		}
	}
	transport := &flatteningTransport{}
	WithWorkers(workers, ownerOf)(transport)
	events, err := routeOf("/apis/events.k8s.io/v1/namespaces/a|ns/events", nil)
	if err != nil || transport.sharesFor(&events) != nil {
		t.Errorf("events: %v, have a share in the workers", err)
	}
	system, err := routeOf("/api/v1/namespaces/ns/pods", nil)
	if err != nil || transport.sharesFor(&system) != nil {
		t.Errorf("the system space has a share: %v", err)
	}
}

// TestNoOwnRetry checks that a client does not wait by itself to try again.
func TestNoOwnRetry(t *testing.T) {
	response, err := refused(&http.Request{}, "a")
	if err != nil {
		t.Fatal(err)
	}
	if after := response.Header.Get("Retry-After"); after != "" {
		t.Errorf("Retry-After is %q", after)
	}
}

// TestTriesAgain checks that it is the controller that tries again, and not its client,
// which would keep the worker meanwhile, or what records events.
func TestTriesAgain(t *testing.T) {
	pods := func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().Pods("a|ns").Get(ctx, "p", metav1.GetOptions{})
		return err
	}
	events := func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().Events("a|ns").Get(ctx, "e", metav1.GetOptions{})
		return err
	}
	for name, tc := range map[string]struct {
		option Option
		ask    func(context.Context, kubernetes.Interface) error
	}{
		"a worker": {WithWorkers(workers, nil), pods}, "a recorder": {WithWorkers(workers, nil), events}, "who has workers of its own": {WithoutWaits(), pods},
	} {
		t.Run(name, func(t *testing.T) { triesAgain(t, tc.option, tc.ask) })
	}
}

func triesAgain(t *testing.T, option Option, ask func(context.Context, kubernetes.Interface) error) {
	t.Helper()
	var asked atomic.Int32
	config := &rest.Config{Transport: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		asked.Add(1)
		return &http.Response{
			StatusCode: http.StatusTooManyRequests, Request: req,
			Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}},
			Body:   io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`)),
		}, nil
	})}
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(NewClientConfig(config, option))
		if err != nil {
			t.Fatal(err)
		}
		err = ask(t.Context(), client)
		if !apierrors.IsTooManyRequests(err) || asked.Load() != 1 {
			t.Errorf("asked %d times, got error %v", asked.Load(), err)
		}
	})
}

// TestTogether checks that the tenants whose webhooks hang leave workers to others, however
// many they are, and that each of them has its turn.
