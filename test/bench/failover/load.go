package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/test/harness"
)

// requestTimeout is what one request gets. A client that waits longer asks again.
const requestTimeout = 5 * time.Second

// retryPeriod is until a client asks again, as client-go's own controllers do, so that it does not burn a core.
const retryPeriod = 20 * time.Millisecond

// writer creates objects one after the other in a space, each until it is acknowledged, and counts
// them in another object.
type writer struct {
	client coreclient.ConfigMapInterface
	name   string

	mu    sync.Mutex
	acked int
	// counted is what the other object said when that was last acknowledged.
	counted int
	last    time.Time
	pauses  []time.Duration
	failed  []error
}

func newWriter(ctx context.Context, config *rest.Config, name string) (*writer, error) {
	config = rest.CopyConfig(config)
	config.Timeout = requestTimeout
	// Each has a connection of its own, as clients elsewhere have.
	config.Dial = (&dialer{}).dial
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	w := &writer{client: client.CoreV1().ConfigMaps(metav1.NamespaceDefault), name: name}
	_, err = w.client.Create(ctx, w.counter(0), metav1.CreateOptions{})
	return w, err
}

func (w *writer) object(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.name + "-" + strconv.Itoa(i), Labels: map[string]string{"writer": w.name}}}
}

func (w *writer) counter(n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: w.name}, Data: map[string]string{"count": strconv.Itoa(n)}}
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		w.until(ctx, func() error {
			_, err := w.client.Create(ctx, w.object(i), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) { // what was not acknowledged was done
				return nil
			}
			return err
		}, func() { w.acked = i + 1 })
		w.until(ctx, func() error {
			_, err := w.client.Update(ctx, w.counter(i+1), metav1.UpdateOptions{})
			return err
		}, func() { w.counted = i + 1 })
	}
}

// until repeats a request until it is acknowledged.
func (w *writer) until(ctx context.Context, do func() error, acknowledged func()) {
	for ctx.Err() == nil {
		err := do()
		w.mu.Lock()
		now := time.Now()
		switch {
		case err == nil:
			acknowledged()
			if !w.last.IsZero() {
				w.pauses = append(w.pauses, now.Sub(w.last))
			}
			w.last = now
		case ctx.Err() == nil:
			w.failed = append(w.failed, err)
		}
		w.mu.Unlock()
		if err == nil {
			return
		}
		_ = signal.Pause(ctx, retryPeriod)
	}
}

func (w *writer) failures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.failed)
}

// lost says what was acknowledged and is not there.
func (w *writer) lost(ctx context.Context) ([]string, error) {
	there := map[string]bool{}
	options := metav1.ListOptions{LabelSelector: "writer=" + w.name, Limit: 500}
	for {
		page, err := w.client.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			there[page.Items[i].Name] = true
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	var lost []string
	for i := range w.acked {
		if name := w.object(i).Name; !there[name] {
			lost = append(lost, name)
		}
	}
	counter, err := w.client.Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if n, err := strconv.Atoi(counter.Data["count"]); err != nil || n < w.counted {
		lost = append(lost, fmt.Sprintf("%s counts %d of %d", w.name, n, w.counted))
	}
	return lost, nil
}

// load is a writer and a watcher in each of some spaces.
type load struct {
	writers  []*writer
	watchers []*watcher
	stop     context.CancelFunc
	done     sync.WaitGroup
}

func startLoad(ctx context.Context, configs []*rest.Config, writers int) (*load, error) {
	running, stop := context.WithCancel(ctx)
	l := &load{stop: stop}
	for i, config := range configs {
		watcher, err := newWatcher(config)
		if err != nil {
			l.end()
			return nil, err
		}
		l.watchers = append(l.watchers, watcher)
		l.done.Go(func() { watcher.run(running) })
		for j := range writers {
			w, err := newWriter(ctx, config, fmt.Sprintf("w%d-%d", i, j))
			if err != nil {
				l.end()
				return nil, err
			}
			l.writers = append(l.writers, w)
			l.done.Go(func() { w.run(running) })
		}
	}
	return l, nil
}

func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// acked is how many writes were acknowledged.
func (l *load) acked() (n int) {
	for _, w := range l.writers {
		w.mu.Lock()
		n += w.acked
		w.mu.Unlock()
	}
	return n
}

// each waits until every writer has so many more writes acknowledged.
func (l *load) each(ctx context.Context, n int) error {
	want := make([]int, len(l.writers))
	for i, w := range l.writers {
		w.mu.Lock()
		want[i] = w.acked + n
		w.mu.Unlock()
	}
	return harness.Until(ctx, startTimeout, "all clients write", func(context.Context) error {
		for i, w := range l.writers {
			w.mu.Lock()
			acked := w.acked
			w.mu.Unlock()
			if acked < want[i] {
				return fmt.Errorf("%s has written %d of %d", w.name, acked, want[i])
			}
		}
		return nil
	})
}

// failing waits until a request of each writer has failed once more.
func (l *load) failing(ctx context.Context) error {
	before := make([]int, len(l.writers))
	for i, w := range l.writers {
		before[i] = w.failures()
	}
	return harness.Until(ctx, startTimeout, "requests of all clients fail", func(context.Context) error {
		for i, w := range l.writers {
			if w.failures() == before[i] {
				return fmt.Errorf("none of %s does", w.name)
			}
		}
		return nil
	})
}

// counts are what has come of a time.
type counts struct {
	acked, resumed, relisted int
	failed                   []error
	pauses                   []time.Duration
}

// take returns what has come since it was called before.
func (l *load) take() counts {
	var c counts
	for _, w := range l.writers {
		w.mu.Lock()
		c.pauses, c.failed = append(c.pauses, w.pauses...), append(c.failed, w.failed...)
		w.pauses, w.failed = nil, nil
		w.mu.Unlock()
	}
	c.acked = len(c.pauses)
	for _, w := range l.watchers {
		resumed, relisted := w.take()
		c.resumed, c.relisted = c.resumed+resumed, c.relisted+relisted
	}
	return c
}
