package spaces

import (
	"fmt"
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
	"k8s.io/utils/ptr"
)

// workers are those of the controllers in these tests; two of them are a share.
const workers = 8

// slowServer answers requests in the space of a after a time, and others at once.
func slowServer(t *testing.T, after func() time.Duration) *kubernetes.Clientset {
	t.Helper()
	config := &rest.Config{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
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
	client, err := kubernetes.NewForConfig(NewClientConfig(config, WithWorkers(workers, nil)))
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
			time.Sleep(late + time.Millisecond)
			if refused := create(t, client, "a|ns", 10, false); refused != 10 {
				t.Errorf("%d of 10 requests were refused while others wait", refused)
			}
			if refused := create(t, client, "b|ns", 10*workers, false); refused > 0 {
				t.Errorf("%d requests of another tenant were refused", refused)
			}
			if waited := time.Since(began); waited > late+time.Millisecond {
				t.Errorf("others had to wait for %v", waited)
			}
		}()
		if refused := create(t, client, "a|ns", workers, false); refused != workers-workers/part {
			t.Errorf("%d of %d requests were refused, not those beyond the share", refused, workers)
		}
		if waited := time.Since(began); waited != hanging {
			t.Errorf("the share waited for %v", waited)
		}

		// Now it is in debt.
		if refused := create(t, client, "a|ns", workers, false); refused != workers-workers/part {
			t.Errorf("in debt, %d of %d requests were refused", refused, workers)
		}
		time.Sleep(longest)
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

func TestItems(t *testing.T) {
	ownerOf := func(namespace, pod string) types.UID { return types.UID(namespace + " " + pod + "'s owner") }
	transport := &flatteningTransport{}
	WithWorkers(workers, ownerOf)(transport)
	for _, tc := range []struct{ method, path, body, want string }{
		{http.MethodPost, "/api/v1/namespaces/a|ns/pods", `{"metadata":{"ownerReferences":[{"uid":"x"},{"uid":"u","controller":true}]}}`, "u"},
		{http.MethodPost, "/api/v1/namespaces/a|ns/pods", `{"metadata":{"ownerReferences":[{"uid":"x"}]}}`, "/api/v1/namespaces/ns/pods"},
		{http.MethodDelete, "/api/v1/namespaces/a|ns/pods/p", "", "a|ns p's owner"},
		{http.MethodDelete, "/api/v1/namespaces/a|ns/pods", "", "/api/v1/namespaces/ns/pods"},
		{http.MethodPatch, "/api/v1/namespaces/a|ns/secrets/p", "{}", "/api/v1/namespaces/ns/secrets/p"},
	} {
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
	events, err := routeOf("/apis/events.k8s.io/v1/namespaces/a|ns/events", nil)
	if err != nil || transport.sharesFor(&events) != transport.recorder {
		t.Errorf("events: %v, have no share in the recorder", err)
	}
	system, err := routeOf("/api/v1/namespaces/ns/pods", nil)
	if err != nil || transport.sharesFor(&system) != nil {
		t.Errorf("the system space has a share: %v", err)
	}
}

// TestAccounts checks that tenants without requests cost nothing.
func TestAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(workers)
		for range 3 {
			_, leave, err := s.enter(t.Context(), "a", "item")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(late)
			synctest.Wait()
			leave()
		}
		if len(s.accounts) != 1 {
			t.Errorf("%d accounts, want that of the debt", len(s.accounts))
		}
		time.Sleep(longest)
		synctest.Wait()
		if len(s.accounts) != 0 {
			t.Errorf("%d accounts are left", len(s.accounts))
		}
	})
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
