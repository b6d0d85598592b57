package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
)

// dialer makes connections that no other client has: client-go shares transports by their dialers.
type dialer struct{ net.Dialer }

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	return d.DialContext(ctx, network, address)
}

// watcher watches the objects of a space, resumes where it was when a watch ends, and lists them again
// only where it is told to.
type watcher struct {
	client coreclient.ConfigMapInterface

	mu sync.Mutex
	// seen has how often each object was added.
	seen              map[string]int
	version           string
	resumed, relisted int
}

func newWatcher(config *rest.Config) (*watcher, error) {
	config = rest.CopyConfig(config)
	config.Dial = (&dialer{}).dial
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &watcher{client: client.CoreV1().ConfigMaps(metav1.NamespaceDefault), seen: map[string]int{}}, nil
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.follow(ctx)
		w.mu.Lock()
		if err != nil && (apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
			w.version = ""
		}
		w.mu.Unlock()
		if err != nil {
			_ = signal.Pause(ctx, retryPeriod)
		}
	}
}

// follow lists if it must, and watches until the watch ends.
func (w *watcher) follow(ctx context.Context) error {
	if w.version == "" {
		list, err := w.client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		w.mu.Lock()
		for i := range list.Items {
			w.seen[list.Items[i].Name] = max(1, w.seen[list.Items[i].Name])
		}
		w.version = list.ResourceVersion
		w.relisted++
		w.mu.Unlock()
	}
	events, err := w.client.Watch(ctx, metav1.ListOptions{ResourceVersion: w.version, AllowWatchBookmarks: true})
	if err != nil {
		return err
	}
	defer events.Stop()
	w.mu.Lock()
	w.resumed++
	w.mu.Unlock()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return apierrors.FromObject(event.Object)
		}
		object, is := event.Object.(*corev1.ConfigMap)
		if !is {
			return apierrors.NewGenericServerResponse(http.StatusInternalServerError, "watch", corev1.Resource("configmaps"), "", "no ConfigMap", 0, true)
		}
		w.mu.Lock()
		w.version = object.ResourceVersion
		if event.Type == watch.Added {
			w.seen[object.Name]++
		}
		w.mu.Unlock()
	}
	return nil
}

// take returns how often a watch began and how often all was listed since it was called before.
func (w *watcher) take() (resumed, relisted int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	resumed, relisted = w.resumed, w.relisted
	w.resumed, w.relisted = 0, 0
	return resumed, relisted
}

// catchUp goes on until all names were seen, and returns those that never are, and those that were added
// more than once.
func (w *watcher) catchUp(ctx context.Context, names []string) (unseen, twice []string, _ error) {
	running, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(running)
	}()
	err := harness.Until(ctx, startTimeout, "all was seen", func(context.Context) error {
		if unseen, _ := w.wrong(names); len(unseen) > 0 {
			return errors.New("something was not")
		}
		return nil
	})
	stop()
	<-done
	unseen, twice = w.wrong(names)
	if len(unseen) > 0 {
		return unseen, twice, nil
	}
	return unseen, twice, err
}

func (w *watcher) wrong(names []string) (unseen, twice []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if w.seen[name] == 0 {
			unseen = append(unseen, name)
		}
	}
	for name, n := range w.seen {
		if n > 1 {
			twice = append(twice, name)
		}
	}
	return unseen, twice
}
