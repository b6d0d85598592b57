package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/cacher/consistency"
	cachermetrics "k8s.io/apiserver/pkg/storage/cacher/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// spy remembers the objects that watches below the caches delivered, without keeping them.
type spy struct {
	storage.Interface
	mu   sync.Mutex
	seen []func() bool // reports whether an object is still there
	// progress is how often etcd was asked for progress.
	progress atomic.Int32
}

func (s *spy) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	source, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	r := roundtrip.NewRelay(source, 0)
	go func() {
		defer close(r.Result)
		for event := range source.ResultChan() {
			if timed, ok := event.Object.(storage.WatchEventWithRecordTime); ok && event.Type != watch.Bookmark {
				s.see(timed.Unwrap())
			}
			if !r.Send(event) {
				return
			}
		}
	}()
	return r, nil
}

// RequestWatchProgress implements storage.Interface.
func (s *spy) RequestWatchProgress(ctx context.Context) error {
	s.progress.Add(1)
	return s.Interface.RequestWatchProgress(ctx)
}

func (s *spy) see(obj apiruntime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		seen := weak.Make(obj)
		s.seen = append(s.seen, func() bool { return seen.Value() != nil })
	case *unstructured.Unstructured:
		seen := weak.Make(obj)
		s.seen = append(s.seen, func() bool { return seen.Value() != nil })
	}
}

// left returns how many of the objects are still there, of how many.
func (s *spy) left() (left, of int) {
	runtime.GC()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, there := range s.seen {
		if there() {
			left++
		}
	}
	return left, len(s.seen)
}

// spied makes a store with a spy below its watch cache.
func (b *backend) spied(made func() *store) (*store, *spy) {
	s := &spy{}
	b.raw = func(config storagebackend.ConfigForResource, newFunc, newListFunc func() apiruntime.Object, prefix string) (storage.Interface, factory.DestroyFunc, error) {
		raw, destroy, err := b.server.Storage(config, newFunc, newListFunc, prefix)
		s.Interface = raw
		return s, destroy, err
	}
	defer func() { b.raw = nil }()
	return made(), s
}

func (s *store) history() *history { return s.Interface.(*withHistory).history }

// kept returns what a history keeps, as it was told.
func (a *Histories) kept(of ...*history) (total, each int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range of {
		each += h.bytes
	}
	return a.bytes, each
}

// drop makes a history drop what it keeps, as if all kept too much.
func (a *Histories) drop(t *testing.T, h *history) {
	t.Helper()
	a.mu.Lock()
	a.requestDrop(h)
	a.mu.Unlock()
	until.True(t, "the history is dropped", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return !h.dropRequested
	})
}

// logged returns the errors that the process logs during a test.
func logged(t *testing.T) func() string {
	t.Cleanup(func() { klog.LogToStderr(true) })
	var mu sync.Mutex
	var out bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutputBySeverity("INFO", &bytes.Buffer{})
	klog.SetOutputBySeverity("WARNING", &bytes.Buffer{})
	klog.SetOutputBySeverity("ERROR", writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}))
	return func() string {
		klog.Flush()
		mu.Lock()
		defer mu.Unlock()
		return out.String()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestDroppedHistory changes an object until the watch cache drops what it was, and checks
// that the cache is right about everything else.
func TestDroppedHistory(t *testing.T) {
	for name, make := range map[string]func(b *backend) *store{
		"built-in": func(b *backend) *store { return b.configMaps(t, true) },
		"custom":   func(b *backend) *store { return b.widgets(t, "a", true) },
	} {
		t.Run(name, func(t *testing.T) {
			const changes = 60
			failures := logged(t)
			b := newBackend(t)
			b.histories = NewHistories(1 << 30)
			s, spy := b.spied(func() *store { return make(b) })
			h := s.history()
			first := version(t, s.create(t, "a", "ns", "other"))
			s.create(t, "a", "ns", "x")

			watches := map[string]watch.Interface{"space": s.watch(t, "a", "", from(first, "")), "namespace": s.watch(t, "a", "ns", from(first, ""))}
			if name == "built-in" { // also those that are offered every event
				watches["all"] = s.watch(t, tenant.All, "", from(first, ""))
				watches["everything"] = s.watch(t, tenant.Everything, "", from(first, ""))
			}
			want := []string{"ADDED x "}
			for i := range changes {
				want = append(want, fmt.Sprintf("MODIFIED x %d", i))
			}
			events := func(watcher watch.Interface, n int) (got []string) {
				for range n {
					event := <-watcher.ResultChan()
					accessor, err := meta.Accessor(event.Object)
					if err != nil {
						t.Fatalf("%s: %v", event.Type, event.Object)
					}
					got = append(got, fmt.Sprintf("%s %s %s", event.Type, accessor.GetName(), accessor.GetLabels()["value"]))
				}
				return got
			}
			got := map[string][]string{}
			read := func(n int) {
				for name, watcher := range watches {
					got[name] = append(got[name], events(watcher, n)...)
				}
			}
			read(1)
			before, latest := "", ""
			for i := range changes {
				before, latest = latest, version(t, s.label(t, "a", "ns", "x", fmt.Sprint(i)))
				read(1)
				if i%25 == 24 { // before the cache is full, and after it has been dropped
					b.histories.drop(t, h)
				}
			}
			b.histories.drop(t, h)
			for name := range watches {
				if diff := cmp.Diff(want, got[name]); diff != "" {
					t.Errorf("the watch of %s:\n%s", name, diff)
				}
			}
			if bytes, capacity := h.past.bytes, h.past.capacity; bytes != 0 || capacity != minPast {
				t.Errorf("the history keeps %d bytes and has room for %d events", bytes, capacity)
			}

			for what, from := range map[string]func(*storage.ListOptions){"a long time ago": from(first, ""), "before the last event": from(before, "")} {
				select {
				case event := <-s.watch(t, "a", "", from).ResultChan():
					if !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
						t.Errorf("a watch that goes on from %s: %s of %v", what, event.Type, event.Object)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("a watch that goes on from %s misses what was dropped", what)
				}
			}
			fresh := s.watch(t, "a", "", from(latest, ""))
			s.label(t, "a", "ns", "x", "new")
			read(1)
			if diff := cmp.Diff([]string{"MODIFIED x new"}, events(fresh, 1)); diff != "" {
				t.Errorf("a watch from now:\n%s", diff)
			}

			objects := []string{"a:ns/other", "a:ns/x"}
			for what, options := range map[string]func(*storage.ListOptions){
				"consistent": from("", ""), "cached": from("0", ""), "of before": from(before, metav1.ResourceVersionMatchExact),
				"of the first change": from(first, metav1.ResourceVersionMatchExact),
			} {
				expected := objects
				if what == "of the first change" {
					expected = objects[:1]
				}
				listed, _ := s.list(t, "a", "", options)
				if diff := cmp.Diff(expected, listed); diff != "" {
					t.Errorf("the list %s:\n%s", what, diff)
				}
			}
			digest, err := consistency.NewChecker(h.checkedPrefix(), schema.GroupResource{}, s.newListFunc, ready{s.Interface}, h.etcdKeys).CalculateDigests(t.Context())
			if err != nil || digest.CacheDigest != digest.EtcdDigest {
				t.Errorf("the cache differs from etcd: %+v, %v", digest, err)
			}
			// Of x there are the last version and the one before; other was there before the cache watched, or not.
			until.True(t, "old objects are collected", func() bool {
				left, _ := spy.left()
				return left <= 3
			})
			if _, of := spy.left(); of < changes {
				t.Errorf("%d objects were seen", of)
			}
			if errors := failures(); errors != "" {
				t.Errorf("logged:\n%s", errors)
			}
		})
	}
}

// checkedPrefix is what the cache lists.
func (h *history) checkedPrefix() string {
	return strings.TrimSuffix(tenant.CachePrefix(h.resourcePrefix, h.cacheID.Of), "/")
}

// ready is a cache that can be checked.
type ready struct{ storage.Interface }

func (ready) Ready() bool         { return true }
func (ready) MarkConsistent(bool) {}

// TestHistoriesTogether checks that what several caches keep is bounded, that the one that
// keeps the most drops it, and that a cache that ends gives back what it has.
func TestHistoriesTogether(t *testing.T) {
	const most = 4 << 20
	b := newBackend(t)
	b.histories = NewHistories(most)
	small, large := b.configMaps(t, true), b.widgets(t, "a", true)
	small.create(t, "a", "ns", "x")
	large.create(t, "a", "ns", "x")
	for i := range 10 {
		small.label(t, "a", "ns", "x", strings.Repeat(strconv.Itoa(i%10), 100_000))
	}
	var highest int64
	latest := ""
	for i := range 80 {
		latest = version(t, large.label(t, "a", "ns", "x", strings.Repeat(strconv.Itoa(i%10), 200_000)))
		large.list(t, "a", "", from(latest, metav1.ResourceVersionMatchNotOlderThan)) // the cache has got it
		total, _ := b.histories.kept()
		highest = max(highest, total)
		// What is written while a history is dropped comes on top, as much as can be written meanwhile.
		until.True(t, "the caches keep what they may", func() bool {
			total, _ := b.histories.kept()
			return total <= most
		})
	}
	event := <-large.watch(t, "a", "", from(latest, metav1.ResourceVersionMatchNotOlderThan), func(o *storage.ListOptions) {
		initial := true
		o.SendInitialEvents = &initial
	}).ResultChan() // once the cache has got everything
	if event.Type != watch.Added {
		t.Errorf("got %s of %v", event.Type, event.Object)
	}
	until.True(t, "no history is still to be dropped", func() bool {
		b.histories.mu.Lock()
		defer b.histories.mu.Unlock()
		return b.histories.dropping == 0
	})
	if highest < most/2 || highest > most+most/2 {
		t.Errorf("the caches kept %d bytes", highest)
	}
	if small.history().droppedTo.Load() != 0 {
		t.Error("the cache that keeps little has dropped it")
	}
	if large.history().droppedTo.Load() == 0 {
		t.Error("the cache that keeps much has not dropped it")
	}
	large.history().forget()
	if total, kept := b.histories.kept(small.history()); total != kept || kept < 1_000_000 {
		t.Errorf("all keep %d, and the only one %d", total, kept)
	}
}

// TestProgress checks that a cache behind changes of other resources has etcd asked at once how far its watch is, and
// once for a version: upstream asks ten times in a second, and lists wait for it.
func TestProgress(t *testing.T) {
	b := newBackend(t)
	b.histories = NewHistories(1 << 30)
	volumes := b.volumes(t, true)
	s, spy := b.spied(func() *store { return b.configMaps(t, true) })
	s.create(t, "a", "ns", "x")
	s.list(t, "a", "") // the cache has got it
	spy.progress.Store(0)
	for asked := int32(1); asked < 4; asked++ {
		latest := version(t, volumes.create(t, "a", "", strconv.Itoa(int(asked))))
		for range 2 { // nobody waits, so that upstream does not ask
			current, err := s.history().GetCurrentResourceVersion(t.Context())
			if err != nil || strconv.FormatUint(current, 10) != latest {
				t.Fatalf("the version is %d, %v, want %s", current, err, latest)
			}
		}
		until.True(t, "the cache has reached the version", func() bool {
			return strconv.FormatUint(s.history().reached.Load(), 10) == latest
		})
		if _, err := s.history().GetCurrentResourceVersion(t.Context()); err != nil || spy.progress.Load() != asked {
			t.Errorf("etcd was asked %d times, want %d, %v", spy.progress.Load(), asked, err)
		}
	}
}

// TestHistoriesOfFailedCaches checks that caches whose objects cannot be decoded any more, as
// when a conversion webhook fails, keep no history: they neither watch nor list, so that nothing
// can be displaced when they are told to drop it.
func TestHistoriesOfFailedCaches(t *testing.T) {
	b := newBackend(t)
	b.histories = NewHistories(4 << 20)
	for _, n := range []tenant.Name{"a", "b"} {
		transformer := &failing{Transformer: identity.NewEncryptCheckTransformer()}
		b.transformer = transformer
		s, spy := b.spied(func() *store { return b.widgets(t, n, true) })
		s.create(t, n, "ns", "x")
		for i := range 15 {
			s.label(t, n, "ns", "x", strings.Repeat(strconv.Itoa(i%10), 200_000))
		}
		until.True(t, "the cache keeps almost as much as it may", func() bool {
			_, kept := b.histories.kept(s.history())
			return kept >= 3_000_000
		})
		transformer.fails.Store(true)
		s.create(t, n, "ns", "y")
		until.True(t, "old objects are collected", func() bool {
			left, of := spy.left()
			return left <= 3 && of >= 15
		})
	}
	if total, _ := b.histories.kept(); total != 0 {
		t.Errorf("failed caches keep %d bytes", total)
	}
}

// failing reads nothing once it fails.
type failing struct {
	value.Transformer
	fails atomic.Bool
}

func (f *failing) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	if f.fails.Load() {
		return nil, false, errors.New("conversion webhook failed")
	}
	return f.Transformer.TransformFromStorage(ctx, data, dataCtx)
}

// events is a storage whose watch delivers what a test sends.
type events struct {
	storage.Interface
	sent    chan watch.Event
	version *atomic.Int64 // of lists
}

func (events) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }
func (events) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return 1, nil
}
func (events) RequestWatchProgress(context.Context) error          { return nil }
func (events) CompactRevision() int64                              { return 0 }
func (events) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }
func (e events) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return watch.NewProxyWatcher(e.sent), nil
}
func (e events) GetList(_ context.Context, _ string, _ storage.ListOptions, list apiruntime.Object) error {
	list.(*corev1.ConfigMapList).ResourceVersion = strconv.FormatInt(e.version.Load(), 10)
	return nil
}

// TestPast checks that past says how many events upstream's cache has room for, and which it
// keeps, whatever their times and whenever they are dropped or the cache lists again.
func TestPast(t *testing.T) {
	cachermetrics.Register()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			resource := schema.GroupResource{Resource: fmt.Sprintf("past%d", seed)}
			sent, version := make(chan watch.Event), &atomic.Int64{}
			version.Store(1)
			histories := NewHistories(1 << 40)
			cached, h := cacheOf(t, resource, events{sent: sent, version: version}, histories)
			now, last := time.Now(), 1
			for round := range 40 {
				if round%15 == 14 {
					version.Store(int64(last))
					failure := apierrors.NewResourceExpired("compacted").Status()
					sent <- watch.Event{Type: watch.Error, Object: &failure}
					sent <- bookmark(last) // to the next watch
					sent <- bookmark(last)
					if events := len(h.past.events); events != 0 {
						t.Errorf("%d events are left after a list", events)
					}
				}
				step := time.Duration(random.Int64N(int64(2 * time.Second)))
				for range random.IntN(400) {
					last++
					now = now.Add(time.Duration(random.Int64N(int64(step) + 1)))
					object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", ResourceVersion: strconv.Itoa(last)}}
					sent <- watch.Event{Type: watch.Modified, Object: &fillerEvent{object, object.ResourceVersion, now}}
				}
				if random.IntN(3) == 0 {
					histories.drop(t, h)
				}
				// Whoever sends to the goroutine of the watch once more knows that it has noted what came before.
				sent <- bookmark(last)
				sent <- bookmark(last)
				compare(t, cached, resource, h, last)
			}
		})
	}
}

// TestStopOfBusyCache checks that a cache stops whose queue to the watchers is full.
func TestStopOfBusyCache(t *testing.T) {
	cachermetrics.Register()
	for range 10 {
		synctest.Test(t, testStopOfBusyCache)
	}
}

func testStopOfBusyCache(t *testing.T) {
	resource, version := schema.GroupResource{Resource: "busy"}, &atomic.Int64{}
	version.Store(1)
	sent, goOn := make(chan watch.Event), make(chan struct{})
	cached, h := cacheOf(t, resource, events{sent: sent, version: version}, NewHistories(1<<40), func(config *cacher.Config) {
		config.IndexerFuncs = storage.IndexerFuncs{"slow": func(apiruntime.Object) string { <-goOn; return "" }}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for version := 2; ; version++ {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", ResourceVersion: strconv.Itoa(version)}}
			select {
			case sent <- watch.Event{Type: watch.Modified, Object: object}:
			case <-ctx.Done():
				return
			}
		}
	}()
	synctest.Wait() // until no event is taken any more
	go func() {
		<-h.closing.Done() // nobody looks for watchers before
		close(goOn)
	}()
	h.stop(cached)
}

// slowList is a storage whose lists end with their context.
type slowList struct {
	events
	begun, ended chan struct{}
}

func (s slowList) GetList(ctx context.Context, _ string, _ storage.ListOptions, _ apiruntime.Object) error {
	close(s.begun)
	<-ctx.Done()
	<-s.ended
	return ctx.Err()
}

// TestListsOfStoppedCaches checks that lists of a cache end with it, and that it counts until they have ended.
func TestListsOfStoppedCaches(t *testing.T) {
	slow := slowList{events{}, make(chan struct{}), make(chan struct{})}
	m := cachememory.New(1<<20, 0)
	etcd := &etcdKeys{Interface: slow, resourcePrefix: "/slow/", cacheID: tenant.CacheID{Resource: "slow", Of: "a"}}
	h := NewHistories(1<<40).newHistory(etcd, m.NewCache(etcd.cacheID, "", nil, tenantOf), &corev1.ConfigMap{}, time.Minute)
	listed := make(chan error)
	go func() {
		listed <- h.GetList(t.Context(), "/slow/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &corev1.ConfigMapList{})
	}()
	<-slow.begun
	h.endWatch()
	h.forgetClosed()
	if m.Usage().Resources == 0 {
		t.Error("a cache is forgotten whose list runs")
	}
	close(slow.ended)
	if err := <-listed; !errors.Is(err, context.Canceled) {
		t.Errorf("a list of a stopped cache: %v", err)
	}
	if m.Usage().Resources > 0 {
		t.Error("a cache is not forgotten whose list has ended")
	}
	if err := h.GetList(t.Context(), "/slow/", storage.ListOptions{}, &corev1.ConfigMapList{}); !apierrors.IsTooManyRequests(err) {
		t.Errorf("another list of a stopped cache: %v", err)
	}
}

// TestFailingLists checks that lists of custom resources which fail begin again later each time, and at once after one
// that did not.
func TestFailingLists(t *testing.T) {
	for of, waits := range map[tenant.Scope][]time.Duration{"a": {0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, maxBackOff, maxBackOff}, tenant.Everything: {0, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			failure := errors.New("it cannot be converted")
			etcd := &etcdKeys{Interface: failingLists{err: &failure}, resourcePrefix: "/failing/", custom: of != tenant.Everything, cacheID: tenant.CacheID{Resource: "failing", Of: of}}
			h := NewHistories(1<<40).newHistory(etcd, nil, &corev1.ConfigMap{}, time.Minute)
			list := func() (time.Duration, error) {
				began := time.Now()
				err := h.GetList(t.Context(), "/failing/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, &corev1.ConfigMapList{})
				return time.Since(began), err
			}
			for i, want := range waits {
				if waited, err := list(); waited != want || !errors.Is(err, failure) {
					t.Errorf("of %q, list %d ended after %v: %v, want it after %v", of, i, waited, err, want)
				}
			}
			failed := failure
			failure = nil
			if _, err := list(); err != nil {
				t.Errorf("of %q: %v", of, err)
			}
			if waited, err := list(); waited > 0 || err != nil {
				t.Errorf("of %q, a list ended after %v (%v) when the last had succeeded", of, waited, err)
			}
			failure = failed
			_, _ = list()
			h.close()
			if waited, err := list(); waited > 0 || !apierrors.IsTooManyRequests(err) {
				t.Errorf("of %q, a stopped cache lists after %v: %v", of, waited, err)
			}
		})
	}
}

// failingLists are events whose lists fail with an error, if there is one.
type failingLists struct {
	events
	err *error
}

func (l failingLists) GetList(context.Context, string, storage.ListOptions, apiruntime.Object) error {
	return *l.err
}

// TestFailingWatches checks that watches of custom resources which fail begin again later each time.
func TestFailingWatches(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5"}}
	for of, waits := range map[tenant.Scope][]time.Duration{"a": {0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, maxBackOff, maxBackOff}, tenant.Everything: {0, 0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			sent := make(chan watch.Event)
			etcd := &etcdKeys{Interface: events{sent: sent, version: &atomic.Int64{}}, resourcePrefix: "/failing/", custom: of != tenant.Everything, cacheID: tenant.CacheID{Resource: "failing", Of: of}}
			h := NewHistories(1<<40).newHistory(etcd, nil, &corev1.ConfigMap{}, time.Minute)
			begin := func() (watch.Interface, time.Duration) {
				began := time.Now()
				w, err := h.Watch(t.Context(), "/failing/", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
				if err != nil {
					t.Fatal(err)
				}
				return w, time.Since(began)
			}
			for i, want := range waits {
				w, waited := begin()
				if waited != want {
					t.Errorf("of %q, watch %d began after %v, want %v", of, i, waited, want)
				}
				sent <- watch.Event{Type: watch.Error, Object: &metav1.Status{Code: 500}}
				for range w.ResultChan() {
				}
			}
			w, _ := begin()
			go func() { sent <- watch.Event{Type: watch.Added, Object: object} }()
			<-w.ResultChan()
			synctest.Wait()
			w.Stop()
			if w, waited := begin(); waited > 0 {
				t.Errorf("of %q, a watch began after %v when the last had an event", of, waited)
			} else {
				w.Stop()
			}
			h.failedWatches.Store(5)
			h.close()
			if _, err := h.Watch(t.Context(), "/failing/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}); !apierrors.IsTooManyRequests(err) {
				t.Errorf("of %q, a stopped cache watches: %v", of, err)
			}
			close(sent)
		})
	}
}

// cacheOf makes a watch cache with a history, or without if there are none.
func cacheOf(t testing.TB, resource schema.GroupResource, source events, histories *Histories, changes ...func(*cacher.Config)) (*cacher.Cacher, *history) {
	newFunc := func() apiruntime.Object { return &corev1.ConfigMap{} }
	etcd := &etcdKeys{Interface: source, resourcePrefix: "/past/", cacheID: tenant.CacheID{Resource: "past", Of: tenant.Everything}, attributes: spaceAttributes(attributesOf),
		cacheKey: func(obj apiruntime.Object) (string, error) { return cacheKeyOf("/past/", keyOf("/past", true), obj) }}
	config := cacher.Config{
		Storage: etcd, Versioner: storage.APIObjectVersioner{}, GroupResource: resource, EventsHistoryWindow: cacher.DefaultEventFreshDuration,
		ResourcePrefix: "/past", KeyFunc: etcd.cacheKey, NewFunc: newFunc, NewListFunc: func() apiruntime.Object { return &corev1.ConfigMapList{} },
		GetAttrsFunc: etcd.attributes, Codec: scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion),
	}
	var h *history
	if histories != nil {
		h = histories.newHistory(etcd, nil, newFunc(), config.EventsHistoryWindow)
		config.Storage, config.KeyFunc, config.GetAttrsFunc = h, h.cacheKeyOf, h.attributesOf
	}
	for _, change := range changes {
		change(&config)
	}
	cached, err := cacher.NewCacherFromConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.stop(cached) })
	if err := cached.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cached, h
}

func BenchmarkHistory(b *testing.B) {
	for name, histories := range map[string]*Histories{"without": nil, "with": NewHistories(1 << 40), "with drops": NewHistories(64 << 20)} {
		b.Run(name, func(b *testing.B) {
			sent, version := make(chan watch.Event, 100), &atomic.Int64{}
			version.Store(1)
			cacheOf(b, schema.GroupResource{Resource: "benchmark"}, events{sent: sent, version: version}, histories)
			last := 1
			for b.Loop() {
				last++
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x", ResourceVersion: strconv.Itoa(last)}}
				sent <- watch.Event{Type: watch.Modified, Object: &fillerEvent{object, object.ResourceVersion, time.Now()}}
			}
		})
	}
}

func bookmark(version int) watch.Event {
	return watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}}
}

// compare compares what a history says with its cache, whose last event has a version.
func compare(t *testing.T, cached *cacher.Cacher, resource schema.GroupResource, h *history, last int) {
	t.Helper()
	is, err := testutil.GetGaugeMetricValue(cachermetrics.WatchCacheCapacity.WithLabelValues("", resource.Resource))
	if err != nil {
		t.Fatal(err)
	}
	if int(is) != h.past.capacity {
		t.Errorf("the cache has room for %v events, and is said to have room for %d", is, h.past.capacity)
	}
	kept := 0
	for _, event := range h.past.events {
		if event.bytes > 0 {
			kept++
		}
	}
	if kept == 0 || last-kept < 2 || h.past.events[0].bytes == 0 {
		return // what a watch can go on from, fillers say
	}
	for from, expired := range map[int]bool{last - kept: false, last - kept - 1: true} {
		watcher, err := cached.Watch(t.Context(), "/past", storage.ListOptions{ResourceVersion: strconv.Itoa(from), Predicate: storage.Everything, Recursive: true})
		if err != nil {
			t.Fatal(err)
		}
		event := <-watcher.ResultChan()
		if got := apierrors.IsResourceExpired(apierrors.FromObject(event.Object)); got != expired {
			t.Errorf("%d of %d events are kept; a watch from %d: %s", kept, last, from, event.Type)
		}
		watcher.Stop()
	}
}
