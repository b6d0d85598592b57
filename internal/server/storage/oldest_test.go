package storage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

// revisionOf returns the resource version of an object as a number.
func revisionOf(t *testing.T, obj runtime.Object) int64 {
	t.Helper()
	revision, err := strconv.ParseInt(obj.(metav1.Object).GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// TestEarlierLife checks that nothing shows what an earlier tenant, or an earlier namespace, of a name had: neither by
// the resource versions of its time nor by the tokens of its lists.
func TestEarlierLife(t *testing.T) {
	for _, n := range []tenant.Name{"a", tenant.System} {
		for kind, cached := range map[string]bool{"cached": true, "not cached": false} {
			t.Run(n.String()+", "+kind, func(t *testing.T) { testEarlierLife(t, n, cached) })
		}
	}
	backend := newBackend(t) // what is in no namespace of the system space has one life
	configMaps := backend.configMaps(t, true)
	then := strconv.FormatInt(revisionOf(t, configMaps.create(t, tenant.System, "ns", "old")), 10)
	configMaps.options.OldestRevision = func(context.Context, storagebackend.TransportConfig, tenant.Name, string) (int64, error) {
		return 0, errors.New("is not asked for")
	}
	list := func(o *storage.ListOptions) {
		o.ResourceVersion, o.ResourceVersionMatch = then, metav1.ResourceVersionMatchExact
	}
	for _, in := range []tenant.Scope{tenant.System.Scope(), tenant.All, tenant.Everything} {
		if _, _, err := configMaps.tryList(t, in, "", list); err != nil {
			t.Errorf("all namespaces of %q: %v", in, err)
		}
	}
}

func testEarlierLife(t *testing.T, n tenant.Name, cached bool) {
	t.Helper()
	backend := newBackend(t)
	configMaps := backend.configMaps(t, cached)
	configMaps.create(t, n, "ns", "old-1")
	then := strconv.FormatInt(revisionOf(t, configMaps.create(t, n, "ns", "old-2")), 10)
	_, token := configMaps.list(t, n.Scope(), "ns", func(o *storage.ListOptions) { o.Predicate.Limit = 1 })
	if token == "" {
		t.Fatal("the list has no second page")
	}
	at := func(rv string, match metav1.ResourceVersionMatch, limit int64) func(*storage.ListOptions) {
		return func(o *storage.ListOptions) {
			o.ResourceVersion, o.ResourceVersionMatch, o.Predicate.Limit = rv, match, limit
		}
	}
	continued := func(o *storage.ListOptions) { o.Predicate.Continue, o.Predicate.Limit = token, 1 }
	if found, _ := configMaps.list(t, n.Scope(), "ns", at(then, metav1.ResourceVersionMatchExact, 0)); len(found) != 2 {
		t.Fatalf("before the end: %v", found)
	}
	configMaps.remove(t, n, "ns", "old-1")
	configMaps.remove(t, n, "ns", "old-2")
	born := revisionOf(t, configMaps.create(t, "b", "ns", "of another"))
	var asked []string
	configMaps.options.OldestRevision = func(_ context.Context, _ storagebackend.TransportConfig, of tenant.Name, namespace string) (int64, error) {
		asked = append(asked, of.String()+"/"+namespace)
		return born, nil
	}
	for name, change := range map[string]func(*storage.ListOptions){
		"exact":          at(then, metav1.ResourceVersionMatchExact, 0),
		"exact, a page":  at(then, metav1.ResourceVersionMatchExact, 1),
		"a page":         at(then, "", 1),
		"not older than": at(then, metav1.ResourceVersionMatchNotOlderThan, 0),
		"continued":      continued,
	} {
		if found, _, err := configMaps.tryList(t, n.Scope(), "ns", change); !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	for name, initial := range map[string]*bool{"watch": nil, "watch from then": ptr.To(false), "streaming list": ptr.To(true)} {
		options := storage.ListOptions{ResourceVersion: then, Predicate: storage.Everything, Recursive: true, SendInitialEvents: initial}
		if initial != nil && *initial {
			options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
		}
		w, err := configMaps.Watch(configMaps.in(t, n.Scope(), "ns"), configMaps.prefix+"/ns/", options)
		if err != nil {
			t.Fatal(err)
		}
		if event := <-w.ResultChan(); event.Type != watch.Error || event.Object.(*metav1.Status).Reason != metav1.StatusReasonExpired {
			t.Errorf("%s: %+v", name, event)
		}
		w.Stop()
	}
	if slices.ContainsFunc(asked, func(s string) bool { return s != n.String()+"/ns" }) {
		t.Errorf("asked for %v", asked)
	}
	now := strconv.FormatInt(born, 10)
	if n == tenant.System { // whose lists of any state are those of a cache that may be behind, as in any cluster
		configMaps.list(t, n.Scope(), "ns", at("", "", 0))
	}
	for name, change := range map[string]func(*storage.ListOptions){
		"exact, since": at(now, metav1.ResourceVersionMatchExact, 0), "any": at("0", "", 0), "now": at("", "", 0),
	} {
		if found, _, err := configMaps.tryList(t, n.Scope(), "ns", change); err != nil || len(found) > 0 {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	configMaps.options.OldestRevision = func(context.Context, storagebackend.TransportConfig, tenant.Name, string) (int64, error) {
		return 0, errors.New("no etcd")
	}
	if found, _, err := configMaps.tryList(t, n.Scope(), "ns", at(then, metav1.ResourceVersionMatchExact, 0)); err == nil {
		t.Errorf("since when is not known, and got %v", found)
	}
}

// reads notes the resource versions of reads of single objects.
type reads struct {
	storage.Interface
	versions []string
}

func (r *reads) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	r.versions = append(r.versions, opts.ResourceVersion)
	return r.Interface.Get(ctx, key, opts, out)
}

// TestCacheIsOfThisLife checks that what may be of any time is not read from a watch cache that is older than the
// tenant.
func TestCacheIsOfThisLife(t *testing.T) {
	backend := newBackend(t)
	configMaps := backend.configMaps(t, true)
	born := configMaps.create(t, "b", "ns", "of another").(metav1.Object).GetResourceVersion()
	lower := &reads{Interface: configMaps.Interface}
	configMaps.Interface = lower
	revision, _ := strconv.ParseInt(born, 10, 64)
	configMaps.options.OldestRevision = func(_ context.Context, _ storagebackend.TransportConfig, n tenant.Name, _ string) (int64, error) {
		if n == "a" {
			return revision, nil
		}
		return 0, nil
	}
	for name, tc := range map[string]struct {
		do     func(in tenant.Scope) error
		want   []string // of the cache of a space with a predecessor
		others []string
	}{
		"list": {func(in tenant.Scope) error {
			_, _, err := configMaps.tryList(t, in, "ns", func(o *storage.ListOptions) { o.ResourceVersion = "0" })
			return err
		}, []string{born}, nil},
		"a list of what is there now": {func(in tenant.Scope) error { _, _, err := configMaps.tryList(t, in, "ns"); return err }, nil, nil},
		"watch": {func(in tenant.Scope) error {
			w, err := configMaps.Watch(configMaps.in(t, in, "ns"), configMaps.prefix+"/ns/", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true})
			if err == nil {
				w.Stop()
			}
			return err
		}, []string{born}, nil},
		"get, of any time": {func(in tenant.Scope) error {
			return configMaps.Get(configMaps.in(t, in, "ns"), configMaps.key("ns", "x"), storage.GetOptions{ResourceVersion: "0", IgnoreNotFound: true}, &corev1.ConfigMap{})
		}, []string{born}, []string{"0"}},
		"get": {func(in tenant.Scope) error {
			return configMaps.Get(configMaps.in(t, in, "ns"), configMaps.key("ns", "x"), storage.GetOptions{IgnoreNotFound: true}, &corev1.ConfigMap{})
		}, []string{""}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			for in, want := range map[tenant.Scope][]string{"a": tc.want, "c": tc.others, tenant.System.Scope(): tc.others} {
				lower.versions = nil
				if err := tc.do(in); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(lower.versions, want) {
					t.Errorf("in %q versions %q are read, not %q", in, lower.versions, want)
				}
			}
		})
	}
}

// TestReadsThatWait checks that a read which waits for a resource version returns nothing when its request has ended.
func TestReadsThatWait(t *testing.T) {
	configMaps := newBackend(t).configMaps(t, true)
	revision := revisionOf(t, configMaps.create(t, "b", "ns", "first"))
	gone := errors.New("the tenant is gone")
	for name, read := range map[string]func(ctx context.Context, version string) error{
		"list": func(ctx context.Context, version string) error {
			return configMaps.GetList(ctx, configMaps.prefix+"/ns/", listOptions(from(version, metav1.ResourceVersionMatchNotOlderThan)), configMaps.newListFunc())
		},
		"get": func(ctx context.Context, version string) error {
			return configMaps.Get(ctx, configMaps.key("ns", "next-get"), storage.GetOptions{ResourceVersion: version}, &corev1.ConfigMap{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(configMaps.in(t, "a", "ns"))
			result, next := make(chan error), strconv.FormatInt(revision+1, 10)
			go func() { result <- read(ctx, next) }()
			end(gone)
			revision = revisionOf(t, configMaps.create(t, "a", "ns", "next-"+name))
			if err := <-result; !apierrors.IsTooManyRequests(err) {
				t.Errorf("got error %v", err)
			}
			ctx, cancel := context.WithCancel(configMaps.in(t, "a", "ns"))
			cancel()
			if err := read(ctx, "0"); !errors.Is(err, context.Canceled) {
				t.Errorf("of a client that has gone: %v", err)
			}
		})
	}
}

// TestWatchOfOneNamespace checks that who watches a namespace as its creator sees nothing of the next one of its name.
func TestWatchOfOneNamespace(t *testing.T) {
	namespaces := newBackend(t).store(t, namespaceResource, false, true,
		func() runtime.Object { return &corev1.Namespace{} }, func() runtime.Object { return &corev1.NamespaceList{} })
	create := func(uid types.UID) {
		t.Helper()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: uid}}
		if err := namespaces.Create(namespaces.in(t, "a", ""), namespaces.key("", "x"), ns, &corev1.Namespace{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	create("1")
	watchAs := func(uid types.UID) watch.Interface {
		ctx := request.WithRequestInfo(namespaces.in(t, "a", ""), &request.RequestInfo{IsResourceRequest: true, Name: "x"})
		if uid != "" {
			tenant.RequestFrom(ctx).NoteNamespace(uid)
		}
		w, err := namespaces.Watch(ctx, namespaces.key("", "x"), storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	creators, anothers, administrators := watchAs("1"), watchAs("2"), watchAs("")
	namespaces.remove(t, "a", "", "x")
	create("2")
	for who, want := range map[watch.Interface][]watch.EventType{
		creators: {watch.Added, watch.Deleted}, anothers: {watch.Added}, administrators: {watch.Added, watch.Deleted, watch.Added},
	} {
		for _, want := range want {
			event := <-who.ResultChan()
			if event.Type != want || who == anothers && event.Object.(metav1.Object).GetUID() != "2" {
				t.Errorf("%q instead of %q: %+v", event.Type, want, event.Object)
			}
		}
	}
}

// TestReadOfOneNamespace checks that a read which was authorized for a namespace shows nothing of the next one of its
// name.
func TestReadOfOneNamespace(t *testing.T) {
	for kind, cached := range map[string]bool{"cached": true, "not cached": false} {
		t.Run(kind, func(t *testing.T) {
			namespaces := newBackend(t).store(t, namespaceResource, false, cached,
				func() runtime.Object { return &corev1.Namespace{} }, func() runtime.Object { return &corev1.NamespaceList{} })
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "2"}}
			if err := namespaces.Create(namespaces.in(t, "a", ""), namespaces.key("", "x"), ns, &corev1.Namespace{}, 0); err != nil {
				t.Fatal(err)
			}
			for name, tc := range map[string]struct {
				noted *types.UID
				verb  string
				sees  bool
			}{
				"the one": {ptr.To[types.UID]("2"), "", true}, "an earlier one": {ptr.To[types.UID]("1"), "", false}, "any": {nil, "", true},
				"a change, which is refused later": {ptr.To[types.UID]("1"), "patch", true},
			} {
				in := func(verb string) context.Context {
					ctx := request.WithRequestInfo(namespaces.in(t, "a", ""), &request.RequestInfo{IsResourceRequest: true, Name: "x", Verb: cmp.Or(tc.verb, verb)})
					if tc.noted != nil {
						tenant.RequestFrom(ctx).NoteNamespace(*tc.noted)
					}
					return ctx
				}
				list := &corev1.NamespaceList{}
				if err := namespaces.GetList(in("list"), namespaces.key("", "x"), storage.ListOptions{Predicate: storage.Everything}, list); err != nil || len(list.Items) == 1 != tc.sees {
					t.Errorf("%s, list: %v, %v", name, list.Items, err)
				}
				got := &corev1.Namespace{}
				err := namespaces.Get(in("get"), namespaces.key("", "x"), storage.GetOptions{}, got)
				if (err == nil) != tc.sees || err != nil && !apierrors.IsTooManyRequests(err) {
					t.Errorf("%s, get: %v", name, err)
				}
			}
		})
	}
}

// TestOfOne checks which events of a watch are those of an object.
func TestOfOne(t *testing.T) {
	source := watch.NewFakeWithChanSize(10, false)
	object := func(uid types.UID) runtime.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: uid}}
	}
	source.Add(object("1"))
	source.Delete(object("1"))
	source.Add(object("2"))
	source.Action(watch.Bookmark, object(""))
	source.Error(&metav1.Status{})
	source.Stop()
	var got []watch.EventType
	for event := range ofOne(source, "1").ResultChan() {
		got = append(got, event.Type)
	}
	if want := []watch.EventType{watch.Added, watch.Deleted, watch.Bookmark, watch.Error}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}
